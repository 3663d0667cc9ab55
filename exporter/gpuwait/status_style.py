"""Colours and style of the status page."""

from __future__ import annotations

from collections.abc import Mapping

#: Colour of each state and cause, on light and on dark. Related causes have related hues:
#: memory red to orange, storage blue to violet, processors yellow to brown, links pink.
COLORS: Mapping[str, tuple[str, str]] = {
    "busy": ("#2e9e62", "#37a86c"),
    "gap": ("#b5dfc5", "#2c5a40"),
    "compaction": ("#d13438", "#e5585c"),
    "reclaim": ("#e8703a", "#f08a54"),
    "swap": ("#a4262c", "#c4474d"),
    "writeback": ("#7e5bd0", "#9c7ff0"),
    "nfs": ("#2b6cd4", "#5a92f0"),
    "lustre": ("#0f8fb3", "#35b2d6"),
    "gpfs": ("#1b4f9c", "#7aa7e6"),
    "disk": ("#5a3fa0", "#b59cf5"),
    "cpu_throttling": ("#d9a406", "#edbf2f"),
    "cpu_contention": ("#b07d0a", "#cf9d2b"),
    "numa_remote": ("#c2408f", "#e06bb2"),
    "fabric": ("#e06aa8", "#f59aca"),
    "host_cpu": ("#8a5a1f", "#b98550"),
    "host_kernel": ("#5f4527", "#92704a"),
    "unexplained": ("#3b3f46", "#aab0ba"),
    "waiting": ("#3b3f46", "#aab0ba"),
    "idle": ("#b9a7d6", "#6b5a8c"),
    "free": ("#e3e6ea", "#2b3038"),
    "unknown": ("#c3c8cf", "#4a515c"),
}

_LAYOUT = """
:root{--fg:#1b1f24;--bg:#f6f7f9;--card:#fff;--line:#dde1e6;--dim:#5c6570;--code:#eef0f3;--link:#0b5cad;
--good:#1f7a48;--bad:#b3261e;--so:#8a6100;%(light)s}
@media (prefers-color-scheme:dark){:root{--fg:#e6e9ed;--bg:#14171b;--card:#1d2127;--line:#343a43;
--dim:#9aa4b0;--code:#272c34;--link:#7db4f5;--good:#63c68f;--bad:#ff8a80;--so:#e2b64c;%(dark)s}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;
overflow-wrap:anywhere}
header,main{max-width:60rem;margin:0 auto;padding:0 1rem}
header{display:flex;flex-wrap:wrap;gap:.25rem 1.5rem;align-items:baseline;padding-top:1rem}
h1{font-size:1.25rem;margin:0}h1 small,h2 small{font-weight:400;color:var(--dim);font-size:.8em}
nav{display:flex;flex-wrap:wrap;gap:.1rem 1rem;font-size:.9rem}
a{color:var(--link);text-decoration:none}a:hover{text-decoration:underline}
.sum{font-size:1.2rem;line-height:1.35;font-weight:600;margin:1rem 0;padding:.75rem 1rem;
background:var(--card);
border:1px solid var(--line);border-left:.4rem solid var(--dim);border-radius:.4rem}
.sum.good{border-left-color:var(--good)}.sum.bad{border-left-color:var(--bad)}
.sum.so{border-left-color:var(--so)}
.sim{background:var(--code);border:1px dashed var(--so);border-radius:.4rem;padding:.4rem 1rem;
margin:1rem 0 0}
section{background:var(--card);border:1px solid var(--line);border-radius:.4rem;padding:.25rem 1rem 1rem;
margin:0 0 1rem}
h2{font-size:1.05rem;margin:.75rem 0 .5rem}
h3{font-size:.8rem;margin:1.1rem 0 .35rem;text-transform:uppercase;letter-spacing:.05em;color:var(--dim)}
p{margin:.35rem 0}ul{margin:.25rem 0;padding-left:1.2rem}li{margin:.2rem 0}
.dim,small{color:var(--dim)}
.gpu{display:grid;grid-template-columns:4rem 1fr 18rem;gap:0 .75rem;align-items:center;margin:.3rem 0}
.gpu span{font-size:.85rem;color:var(--dim);order:3}.gpu svg{order:2}
.gpu svg,.axis{width:100%%;display:block}.gpu svg{height:2rem;background:var(--code);border-radius:.2rem}
.axis{display:flex;justify-content:space-between;font-size:.75rem;color:var(--dim);
padding:0 18.75rem 0 4.75rem}
.legend{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;font-size:.85rem;
margin:.6rem 0 0}
i{display:inline-block;width:.8em;height:.8em;border-radius:.15em;margin-right:.4em;vertical-align:-.05em}
.cause{font-size:1.05rem}
table{border-collapse:collapse;width:100%%;font-size:.92rem}
td{vertical-align:top;padding:.35rem .75rem .35rem 0;border-top:1px solid var(--line);text-align:left}
tr:first-child td{border-top:0}td:last-child{padding-right:0}
td small{display:block;font-size:.8rem}
.ev td:first-child{width:11rem}.ev th{text-align:left;font-weight:400;color:var(--dim);padding-top:.6rem}
.quiet b,.seen b{font-weight:400}
.fired small+small,.fired td:first-child small{color:var(--bad)}
.quiet td:first-child small{color:var(--dim)}
.src td{padding-top:.2rem;padding-bottom:.2rem}.src td:nth-child(3){text-align:right}
.src td:last-child{width:55%%}.src td:not(:last-child){white-space:nowrap;overflow-wrap:normal}
.src small{margin:0}
.s-ok{color:var(--good)}.s-partly{color:var(--so)}.s-absent{color:var(--dim)}.s-fails{color:var(--bad)}
code,pre{font:13px/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
pre{white-space:pre-wrap;background:var(--code);border-radius:.3rem;padding:.35rem .6rem;margin:.25rem 0}
@media (max-width:40rem){header,main{padding-left:.6rem;padding-right:.6rem}
section{padding:.1rem .7rem .8rem}
.gpu{grid-template-columns:auto 1fr}.gpu svg{grid-column:1/-1;order:3}.gpu span{order:2;text-align:right}
.gpu span{font-size:.8rem}.axis{padding:0}.src tr{display:grid;
grid-template-columns:1fr 5rem 4rem}.src td:last-child{width:auto;grid-column:1/-1;border:0;padding:0}
.src tr:first-child td{border:0}.ev td:first-child{width:38%%}
.sum{font-size:1.08rem}}
"""


def _style() -> str:
    light = "".join(f"--{name}:{pair[0]};" for name, pair in COLORS.items())
    dark = "".join(f"--{name}:{pair[1]};" for name, pair in COLORS.items())
    fills = "".join(
        f".c-{name}{{fill:var(--{name})}}.b-{name}{{background:var(--{name})}}" for name in COLORS
    )
    return (_LAYOUT % {"light": light, "dark": dark} + fills).replace("\n", "")


STYLE = _style()
