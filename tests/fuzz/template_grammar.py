"""Random chat templates and contexts for differential_templates.py: what people write, in combinations nobody wrote, and
now and then something broken.
"""
import copy
import re

STRINGS = ("", "a", "Hello World", "  padded\t\n", "a b,c d", "x\ny\n\nz", "it's \"q\"", "\\n", "<b>&amp;</b>", "éÀß", "\u0130ſ",
           "中文字", "😀👩\u200d💻", "e\u0301", "12", "-3.5", "007", "0x1F", "True", "%s and %d", "{} {x}", "{{ x }}", "a-b_c.d/e",
           "aaaa", "AbC dEf", "\u00a0\u2003x", "\x00\x1f\x7f", "ǆ ﬁ Ⅷ ²", "null", "[1, 2]", '{"k": 1}', "<think>\nhm\n</think>\n\nanswer",
           "http://x.y/z?q=1 www.a.org", "word " * 12)
NUMBERS = ("0", "1", "2", "3", "-1", "7", "10", "100", "1000000007", "12345678901234567890", "1.5", "0.1", "-2.0", "1e3", "2.5e-3",
           "1e16", "123456789.125", "1_000", "0x1f", "0b101", "0o17")
NAMES = ("s", "t", "l", "m", "d", "n", "k", "f", "b", "z", "missing", "messages", "tools", "message", "item", "loop", "ns", "x", "y",
         "bos_token", "add_generation_prompt")
VARIABLE = re.compile(r"\b(" + "|".join(NAMES) + r")\b(?!['=(])")
FILTERS = ("upper", "lower", "title", "capitalize", "trim", "length", "count", "first", "last", "reverse", "list", "sort", "unique",
           "join", "join(', ')", "join('-', 'role')", "default('D')", "default('D', true)", "d('x')", "int", "int(7)", "float", "string",
           "tojson", "tojson(indent=2)", "tojson(ensure_ascii=true)", "tojson(sort_keys=true)", "tojson(separators=(',', ':'))",
           "replace('a', 'b')", "replace('a', 'b', 1)", "abs", "round", "round(1)", "round(1, 'floor')", "round(0, 'ceil')", "sum",
           "sum(start=3)", "sum('n')", "max", "min", "map('upper')", "map('length')", "map(attribute='role')",
           "map(attribute='content', default='-')", "select", "reject", "select('string')", "reject('none')", "select('odd')",
           "selectattr('role', 'equalto', 'user')", "rejectattr('content', 'none')", "selectattr('content')", "items", "dictsort",
           "dictsort(reverse=true)", "dictsort(by='value')", "batch(2)", "batch(3, '-')", "slice(2)", "groupby('role')", "indent",
           "indent(2)", "indent(3, true)", "indent(2, blank=true)", "wordcount", "truncate(9)", "truncate(9, true)",
           "truncate(7, false, '~', 0)", "center(11)", "format(1, 2)", "escape", "e", "safe", "striptags", "urlencode", "urlize",
           "forceescape", "wordwrap(7)", "xmlattr", "attr('role')", "filesizeformat", "filesizeformat(true)", "string|length", "pprint",
           "nosuchfilter")
METHODS = ("upper()", "lower()", "strip()", "strip('a ')", "lstrip()", "rstrip('\\n')", "split()", "split(',')", "split(' ', 1)",
           "rsplit('a', 1)", "splitlines()", "splitlines(true)", "startswith('a')", "startswith(('H', 'a'))", "endswith('d')",
           "replace('a', 'bb')", "replace('', '.')", "find('b')", "rfind('a')", "index('a')", "count('a')", "join(l)", "join(['x', 'y'])",
           "title()", "capitalize()", "swapcase()", "casefold()", "zfill(6)", "center(8, '*')", "ljust(5)", "rjust(6, '.')", "isdigit()",
           "isalpha()", "isalnum()", "isspace()", "isupper()", "islower()", "istitle()", "isnumeric()", "isdecimal()", "isidentifier()",
           "partition(' ')", "rpartition(' ')", "removeprefix('a')", "removesuffix('d')", "expandtabs(4)", "format(1, x=2)",
           "format('a')", "items()", "keys()", "values()", "get('role')", "get('nope', 3)", "get('content')", "copy()", "index(1)",
           "append(1)", "pop()", "update({})", "encode()", "encode('utf-8').decode()", "bit_length()", "is_integer()", "nosuch()")
TESTS = ("defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "sequence", "iterable", "callable",
         "odd", "even", "divisibleby(3)", "divisibleby 2", "eq(1)", "ne 1", "gt(1)", "lt 2", "ge(0)", "le 3", "in l", "in('abc')", "true",
         "false", "lower", "upper", "sameas(none)", "filter", "test", "equalto('a')", "escaped", "nosuchtest")
OPERATORS = (" + ", " - ", " * ", " / ", " // ", " % ", " ~ ", " == ", " != ", " < ", " <= ", " > ", " >= ", " in ", " not in ", " and ",
             " or ", " ** ")
ATTRIBUTES = (".role", ".content", "['role']", "['nope']", "[0]", "[-1]", "[1:]", "[::-1]", "[:2]", "[1:-1]", "[::2]", "[5]", ".n", "[1.0]",
              "['content'][0]", ".tool_calls", "[true]", "[:-1]", "[-3:3]", "[3:1:-1]", "['k']")
TEXTS = ("text", "\n", "  \n", " ", "\t", "<|im_start|>", "\n\n", "  indented\n    more\n", "x }} y", "{ a }", "é", "", "a\r\nb", "<b>", "'", "\"",
         "{#- c -#}", "{# c\n #}\n", "   {# c #}\n", "%}", "# x\n", "{{ '{{' }}")


def value(rng, depth=2):
    """A value of a context."""
    what = rng.random()
    if depth and what < 0.2:
        return [value(rng, depth - 1) for _ in range(rng.randrange(4))]
    if depth and what < 0.4:
        keys = rng.sample(("role", "content", "n", "k", "name", "tool_calls", "a b", "é", ""), rng.randrange(4))
        return {key: value(rng, depth - 1) for key in keys}
    if what < 0.75:
        return rng.choice(STRINGS)
    return rng.choice((0, 1, -1, 3, 7, 255, 2 ** 63, -5, 1.5, -0.0, 0.1, 1e16, 1e-7, 123456.789, 2.0, True, False, None))


def context(rng):
    messages = [{"role": rng.choice(("user", "assistant", "system", "tool")), "content": rng.choice((rng.choice(STRINGS), None,
                 [{"type": "text", "text": "hi"}]))} for _ in range(rng.choice((0, 1, 2, 4)))]
    for message in messages:
        if rng.random() < 0.2:
            message["tool_calls"] = [{"function": {"name": "f", "arguments": value(rng)}}]
    out = {"messages": messages, "s": rng.choice(STRINGS), "t": rng.choice(STRINGS), "l": [value(rng, 1) for _ in range(rng.randrange(4))],
           "m": [rng.randrange(-3, 9) for _ in range(rng.randrange(5))], "d": value(rng) if rng.random() < 0.3 else
           {"role": "x", "n": 2, "k": [1, "a"], "content": value(rng)}, "n": rng.choice((0, 1, 2, 3, -7, 10 ** 12)),
           "k": rng.choice(("role", "content", "a", 1, None)), "f": rng.choice((0.5, -1.25, 3.0, 1e20, 0.1)), "b": rng.random() < 0.5,
           "z": None, "bos_token": "<s>", "add_generation_prompt": rng.random() < 0.5}
    if rng.random() < 0.3:
        out["tools"] = [{"type": "function", "function": {"name": "f", "parameters": value(rng)}}]
    for key in rng.sample(sorted(out), rng.choice((0, 0, 1))):
        del out[key]
    return copy.deepcopy(out)


def literal(rng):
    what = rng.random()
    if what < 0.4:
        text = rng.choice(STRINGS)
        return ("'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'") if rng.random() < 0.7 else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if what < 0.75:
        return rng.choice(NUMBERS)
    return rng.choice(("true", "false", "none", "True", "None", "[]", "{}", "()", "[1, 2, 3]", "['b', 'a']", "{'a': 1, 'role': 'r'}", "(1,)",
                       "(1, 'x')", "[[1, 2], [3]]", "range(3)", "range(1, 9, 3)", "dict(a=1)", "{1: 2, none: 3}", "'a' 'b'", "[1, 2,]", "cycler('a', 'b')",
                       "joiner(', ')", "namespace(x=1)", "strftime_now('%d %b %Y')"))


def expression(rng, depth=3):
    what = rng.random()
    if depth == 0 or what < 0.25:
        return rng.choice(NAMES) if rng.random() < 0.65 else literal(rng)
    inner = expression(rng, depth - 1)
    if what < 0.42:
        return f"{inner}|{rng.choice(FILTERS)}"
    if what < 0.55:
        return f"{paren(rng, inner)}.{rng.choice(METHODS)}"
    if what < 0.68:
        which = rng.choice(ATTRIBUTES)
        if ":" in which and not VARIABLE.search(inner):
            inner = rng.choice(NAMES)  # jinja2 folds slices of constants, where what cannot be sliced is undefined
        return f"{paren(rng, inner)}{which}"
    if what < 0.82:
        other = rng.choice(NUMBERS[:6]) if rng.random() < 0.3 else expression(rng, depth - 1)
        operator = rng.choice(OPERATORS)
        return f"{inner} ** {rng.choice(('0', '2', '3', '-1', '0.5'))}" if operator == " ** " else f"{paren(rng, inner)}{operator}{paren(rng, other)}"
    if what < 0.9:
        return f"{inner} is {rng.choice(('', '', 'not '))}{rng.choice(TESTS)}"
    if what < 0.95:
        return f"{inner} if {expression(rng, depth - 1)}" + (f" else {expression(rng, depth - 1)}" if rng.random() < 0.8 else "")
    return rng.choice((f"not {inner}", f"-{inner}", f"({inner})", f"[{inner}, {literal(rng)}]", f"{{'k': {inner}}}", f"({inner}, {inner})",
                       f"+{inner}", f"[{inner}][0]", f"m1({inner})", f"m1(a={inner})"))


def paren(rng, text):
    return f"({text})" if rng.random() < 0.8 else text


def tag(rng, text):
    left, right = rng.choice(("", "", "", "-", "-", "+")), rng.choice(("", "", "", "-", "-", "+"))
    return f"{{%{left} {text} {right}%}}"


def body(rng, depth):
    return "".join(piece(rng, depth) for _ in range(rng.choice((0, 1, 1, 2, 3))))


def piece(rng, depth):
    what = rng.random()
    if what < 0.3:
        return rng.choice(TEXTS)
    if depth == 0 or what < 0.55:
        left, right = rng.choice(("", "", "-", "+")), rng.choice(("", "", "-"))
        return f"{{{{{left} {expression(rng)} {right}}}}}"
    e, inner, t = lambda d=2: expression(rng, d), lambda: body(rng, depth - 1), lambda text: tag(rng, text)
    name = rng.choice(("x", "y", "s", "item", "ns"))
    loop = rng.choice(("messages", "l", "m", "d", "s", "range(3)", "d.items()", "messages|reverse", e(1)))
    kind = rng.randrange(13)
    if kind < 2:
        rest = f"{t('elif ' + e())}{inner()}" if rng.random() < 0.3 else ""
        rest += f"{t('else')}{inner()}" if rng.random() < 0.5 else ""
        return f"{t('if ' + e())}{inner()}{rest}{t('endif')}"
    if kind < 5:
        target = rng.choice(("message", "item", "x", "k, v" if "items" in loop else "item"))
        condition = f" if {e(1)}" if rng.random() < 0.2 else ""
        inside = rng.choice(("", "{{ loop.index }}", "{{ loop.first }}{{ loop.last }}", "{{ loop.revindex0 }}/{{ loop.length }}",
                             "{{ loop.cycle('a', 'b') }}", "{{ loop.previtem }}|{{ loop.nextitem }}", "{{ loop.changed(item) }}", "{{ loop.depth }}",
                             "{% if loop.index0 == 1 %}{% continue %}{% endif %}", "{% if loop.index == 2 %}{% break %}{% endif %}",
                             "{% set ns.x = loop.index %}", "{% set x = item %}"))
        other = f"{t('else')}{inner()}" if rng.random() < 0.2 else ""
        return f"{t(f'for {target} in {loop}{condition}')}{inside}{inner()}{other}{t('endfor')}"
    if kind == 5:
        return t(f"set {name} = {e(3)}")
    if kind == 6:
        return f"{t(rng.choice(('set x', 'set y | upper', 'set s | trim')))}{inner()}{t('endset')}"
    if kind == 7:
        return f"{t('set ns = namespace(x=' + e(1) + ', y=[])')}{inner()}{t('set ns.' + rng.choice(('x', 'z')) + ' = ' + e())}{{{{ ns.x }}}}"
    if kind == 8:
        return f"{t('macro m1(a, b=' + e(1) + ')')}{{{{ a }}}}{inner()}{{{{ b }}}}{t('endmacro')}{{{{ m1({e(1)}) }}}}{{{{ m1(1, {e(1)}) }}}}"
    if kind == 9:
        return f"{t('with x = ' + e())}{inner()}{t('endwith')}{{{{ x }}}}"
    if kind == 10:
        name = rng.choice(("upper", "trim", "indent(2)", "replace('a', 'b')"))
        return f"{t('filter ' + name)}{inner()}{t('endfilter')}"
    if kind == 11:
        return f"{t('generation')}{inner()}{t('endgeneration')}"
    return rng.choice((f"{t('raw')}{{{{ x }}}} {{% if %}}{t('endraw')}",
                       "{% macro m1(a) %}[{{ a }}{{ caller() if caller is defined }}]{% endmacro %}" + f"{{% call m1({e(1)}) %}}{inner()}{{% endcall %}}",
                       f"{t('if ' + e(1))}{{{{ raise_exception('stop ' ~ ({e(1)})) }}}}{t('endif')}", f"{{{{ x if {e(1)} }}}}"))


def template(rng):
    text = "".join(piece(rng, rng.choice((1, 2, 3))) for _ in range(rng.choice((1, 1, 2, 4))))
    if rng.random() < 0.06 and text:  # broken, most likely
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(("", "%}", "{{", "}}", "{%", "'", "(", "]", "|", ".", "if", " and ", "\\")) + text[at + rng.randrange(3):]
    return text
