"""Names of the Go world in a web configuration, and what OpenSSL calls the same."""

from __future__ import annotations

from collections.abc import Mapping

VERSIONS = ("TLS12", "TLS13")
#: Policies for client certificates, from the weakest.
CLIENT_AUTH = ("NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert")
_OLD = ": older versions are broken (RFC 8996)"  # and OpenSSL 3 does not speak them as it is delivered
_UNVERIFIED = ": a certificate that nobody verifies protects nothing"
#: Values of Go that are not taken, each with the reason.
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(("TLS10", "TLS11"), _OLD),
    **dict.fromkeys(("RequestClientCert", "RequireAnyClientCert", "RequireClientCert"), _UNVERIFIED),
}

#: Of TLS 1.2, those that Go does not call insecure.
CIPHERS: Mapping[str, str] = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
}
#: Of TLS 1.2, those on where the file names none: without CBC, which is there for who asks for it.
DEFAULT_CIPHERS = tuple(name for name in CIPHERS.values() if "GCM" in name or "CHACHA20" in name)
CIPHERS_OF_13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")

CURVES: Mapping[str, str] = {
    "CurveP256": "prime256v1",
    "CurveP384": "secp384r1",
    "CurveP521": "secp521r1",
    "X25519": "X25519",
}

#: Headers that a configuration may set, with the values that they may have (empty: any).
HEADERS: Mapping[str, tuple[str, ...]] = {
    "Content-Security-Policy": (),
    "X-Frame-Options": ("deny", "sameorigin"),
    "X-Content-Type-Options": ("nosniff",),
    "X-XSS-Protection": (),
    "Strict-Transport-Security": (),
}
