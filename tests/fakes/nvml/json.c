#include "json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A state file is a few levels deep; the bound keeps a hostile file from using up the stack. */
#define MAX_DEPTH 64

struct reader {
    const char *at, *end;
};

static struct json *parse_value(struct reader *in, int depth);

void json_free(struct json *node)
{
    while (node) {
        struct json *next = node->next;
        json_free(node->child);
        free(node->key);
        free(node->text);
        free(node);
        node = next;
    }
}

static void skip_space(struct reader *in)
{
    while (in->at < in->end && strchr(" \t\r\n", *in->at) && *in->at)
        in->at++;
}

static bool take(struct reader *in, char wanted)
{
    skip_space(in);
    if (in->at >= in->end || *in->at != wanted)
        return false;
    in->at++;
    return true;
}

static bool take_word(struct reader *in, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(in->end - in->at) < size || memcmp(in->at, word, size) != 0)
        return false;
    in->at += size;
    return true;
}

/* Four hexadecimal digits; -1 when they are not there. */
static long parse_hex4(struct reader *in)
{
    long code = 0;
    if (in->end - in->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const char digit[2] = {*in->at++, 0};
        char *rest;
        long value = strtol(digit, &rest, 16);
        if (*rest || rest == digit)
            return -1;
        code = code * 16 + value;
    }
    return code;
}

static char *put_utf8(char *out, unsigned long code)
{
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xC0 | code >> 6);
        *out++ = (char)(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
        *out++ = (char)(0xE0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 0x3F));
        *out++ = (char)(0x80 | (code & 0x3F));
    } else {
        *out++ = (char)(0xF0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 0x3F));
        *out++ = (char)(0x80 | (code >> 6 & 0x3F));
        *out++ = (char)(0x80 | (code & 0x3F));
    }
    return out;
}

/* The part of an escape after "\u"; NULL on a lone surrogate or NUL, which no C string can hold. */
static char *parse_unicode(struct reader *in, char *out)
{
    long code = parse_hex4(in);
    if (code >= 0xD800 && code < 0xDC00 && take_word(in, "\\u")) {
        long low = parse_hex4(in);
        if (low < 0xDC00 || low > 0xDFFF)
            return NULL;
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code <= 0 || (code >= 0xD800 && code < 0xE000)) {
        return NULL;
    }
    return put_utf8(out, (unsigned long)code);
}

static char *parse_escape(struct reader *in, char *out)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    if (in->at >= in->end)
        return NULL;
    char letter = *in->at++;
    if (letter == 'u')
        return parse_unicode(in, out);
    const char *found = letter ? strchr(names, letter) : NULL;
    if (!found)
        return NULL;
    *out++ = values[found - names];
    return out;
}

/* After the opening quote. The text never grows: "\u0041" is longer than what it stands for. */
static char *parse_string(struct reader *in)
{
    char *text = malloc((size_t)(in->end - in->at) + 1), *out = text;
    while (out && in->at < in->end && *in->at != '"' && (unsigned char)*in->at >= 0x20) {
        char letter = *in->at++;
        if (letter == '\\')
            out = parse_escape(in, out);
        else
            *out++ = letter;
    }
    if (!out || in->at >= in->end || *in->at != '"') {
        free(text);
        return NULL;
    }
    in->at++;
    *out = 0;
    char *fitted = realloc(text, (size_t)(out - text) + 1);
    return fitted ? fitted : text;
}

static bool digits(struct reader *in)
{
    const char *start = in->at;
    while (in->at < in->end && *in->at >= '0' && *in->at <= '9')
        in->at++;
    return in->at > start;
}

static bool parse_number(struct reader *in, struct json *node)
{
    char copy[64];
    const char *start = in->at;
    node->type = JSON_NUMBER;
    node->negative = take_word(in, "-");
    const char *first = in->at;
    if (!digits(in) || (*first == '0' && in->at - first > 1))
        return false;
    node->whole = true;
    if (take_word(in, ".")) {
        node->whole = false;
        if (!digits(in))
            return false;
    }
    if (in->at < in->end && (*in->at == 'e' || *in->at == 'E')) {
        node->whole = false;
        in->at++;
        if (!take_word(in, "-"))
            take_word(in, "+");
        if (!digits(in))
            return false;
    }
    size_t size = (size_t)(in->at - start);
    if (size >= sizeof copy)
        return false;
    memcpy(copy, start, size);
    copy[size] = 0;
    node->real = strtod(copy, NULL);
    errno = 0;
    node->magnitude = node->whole ? strtoull(copy + node->negative, NULL, 10) : 0;
    node->whole = node->whole && errno == 0;
    return true;
}

static bool parse_member(struct reader *in, struct json *node, struct json ***tail, int depth)
{
    char *key = NULL;
    if (node->type == JSON_OBJECT) {
        if (!take(in, '"') || !(key = parse_string(in)))
            return false;
        if (!take(in, ':')) {
            free(key);
            return false;
        }
    }
    struct json *child = parse_value(in, depth + 1);
    if (!child) {
        free(key);
        return false;
    }
    child->key = key;
    **tail = child;
    *tail = &child->next;
    return true;
}

/* After the opening bracket. */
static bool parse_members(struct reader *in, struct json *node, int depth)
{
    char close = node->type == JSON_OBJECT ? '}' : ']';
    struct json **tail = &node->child;
    if (take(in, close))
        return true;
    do {
        if (!parse_member(in, node, &tail, depth))
            return false;
    } while (take(in, ','));
    return take(in, close);
}

static bool fill_value(struct reader *in, struct json *node, int depth)
{
    switch (*in->at) {
    case '{':
    case '[':
        node->type = *in->at++ == '{' ? JSON_OBJECT : JSON_ARRAY;
        return depth < MAX_DEPTH && parse_members(in, node, depth);
    case '"':
        in->at++;
        node->type = JSON_STRING;
        node->text = parse_string(in);
        return node->text != NULL;
    case 't':
    case 'f':
        node->type = JSON_BOOL;
        node->truth = *in->at == 't';
        return take_word(in, node->truth ? "true" : "false");
    case 'n':
        return take_word(in, "null");
    default:
        return parse_number(in, node);
    }
}

static struct json *parse_value(struct reader *in, int depth)
{
    skip_space(in);
    struct json *node = in->at < in->end ? calloc(1, sizeof *node) : NULL;
    if (node && !fill_value(in, node, depth)) {
        json_free(node);
        return NULL;
    }
    return node;
}

struct json *json_parse(const char *text, size_t size)
{
    struct reader in = {text, text + size};
    struct json *root = parse_value(&in, 0);
    skip_space(&in);
    if (in.at != in.end) {
        json_free(root);
        return NULL;
    }
    return root;
}
