"""Random templates for template_cases.py: the same ones for the same seed."""

import random

STRINGS = [
    "'a'", "'abc'", "''", "' x y '", "'é你'", "'a,b,c'", "'12'", "'1.5'", "'%s'", "'{}'", "'A-b c'",
    "'\\n'", "'</think>'", "'x<y'",
]
NUMBERS = ["0", "1", "2", "3", "-1", "7", "10", "1.5", "0.1", "2.0", "-0.5", "1e3"]
OTHERS = [
    "true", "false", "none", "[]", "[1,2,3]", "['b','a']", "(1,2)", "[1,'a',none]", "[[1,2],[3,4]]",
    "{}", "{'a':1}", "{'b':2,'a':[1]}", "{1:2}",
]
FILTERS = [
    "upper", "lower", "title", "capitalize", "trim", "length", "list", "first", "last", "join", "sort",
    "reverse|list", "unique|list", "min", "max", "sum", "abs", "int", "float", "round", "string",
    "tojson", "items|list", "dictsort", "e", "safe", "default('d')", "map('upper')|list",
    "map('length')|list", "select|list", "reject('none')|list", "select('string')|list",
    "batch(2)|list", "slice(2)|list", "indent", "wordcount", "center(9)", "truncate(5,leeway=0)",
    "wordwrap(4)", "urlencode", "groupby(0)|list", "replace('a','b')", "replace('','.')",
    "map(attribute='name')|list", "selectattr('name')|list", "sort(attribute='name')", "join(',')",
    "trim('a')", "round(1)", "int(5,16)", "tojson(indent=2)", "format(1,'x')", "striptags", "xmlattr",
    "filesizeformat", "attr('name')", "count", "forceescape", "tojson(sort_keys=true)",
    "sum(start=2)", "map('default','q')|list", "select('odd')|list", "d('z',true)",
]
TESTS = [
    "defined", "undefined", "none", "string", "number", "mapping", "sequence", "iterable", "odd",
    "even", "true", "false", "boolean", "integer", "float", "lower", "upper", "callable",
    "divisibleby 2", "eq 1", "in [1,'a']", "escaped", "sameas none", "lt 2", "ge 'a'", "in d",
]
MEMBERS = [
    "upper()", "lower()", "strip()", "split()", "split(',')", "split(',',1)", "rsplit(none,1)",
    "splitlines()", "startswith('a')", "endswith(('c','x'))", "replace('a','é')", "find('b')",
    "count('a')", "title()", "capitalize()", "isdigit()", "isalpha()", "keys()|list",
    "values()|list", "items()|list", "get('a')", "get('zz',3)", "pop()", "append(1)", "index('a')",
    "join(['p','q'])", "zfill(4)", "center(7,'*')", "partition(',')", "rpartition('a')", "copy()",
    "lstrip('a')", "rstrip('c')", "format(1,2)", "swapcase()", "isspace()", "casefold()", "name",
    "role", "content", "a", "x", "items", "nope", "istitle()", "ljust(4)", "expandtabs()",
    "insert(0,1)", "reverse()", "setdefault('k',1)", "rfind('a')", "islower()", "isupper()",
]
OPERATORS = [
    "+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", ">", "<=", ">=", "and", "or", "in",
    "not in", "**",
]
SLICES = ["0", "-1", "'a'", "1:", "::-1", ":2", "::2", "-2:", "1:-1:2", "-3:2", "2:-2", "3:0:-1"]
LOOP = ["index", "last", "length", "revindex", "previtem", "nextitem", "cycle(1,2)", "changed(x)"]
SPACE = ["", "", " ", "\n", "\n  ", "  \n", "text", "é"]
ASSIGNED = ["x", "y", "x", "i", "s", "list", "d"]


class Generator:
    def __init__(self, seed, variables):
        self.random = random.Random(seed)
        self.names = list(variables) + ["missing", "x", "y", "ns", "loop"]

    def choice(self, items):
        return self.random.choice(items)

    def chance(self, probability):
        return self.random.random() < probability

    def atom(self):
        if self.chance(0.6):
            return self.choice(self.names)
        return self.choice(self.choice([STRINGS, NUMBERS, OTHERS]))

    def operand(self, depth):
        return self.choice(self.names) if self.chance(0.4) else f"({self.expression(depth)})"

    def expression(self, depth):
        if depth <= 0:
            return self.atom()
        kind = self.random.randrange(13)
        if kind < 3:
            left, right = self.expression(depth - 1), self.expression(depth - 1)
            return f"({left} {self.choice(OPERATORS)} {right})"
        if kind < 6:
            return f"{self.operand(depth - 1)}|{self.choice(FILTERS)}"
        if kind < 8:
            return f"{self.operand(depth - 1)}.{self.choice(MEMBERS)}"
        if kind == 8:
            return f"{self.choice(self.names)}[{self.choice(SLICES + [self.atom()])}]"
        if kind == 9:
            return f"({self.expression(depth - 1)} is {self.choice(['', 'not '])}{self.choice(TESTS)})"
        if kind == 10:
            parts = [self.expression(depth - 1) for _ in range(3)]
            return "({} if {} else {})".format(*parts)
        if kind == 11:
            pair = self.expression(depth - 1), self.expression(depth - 1)
            return self.choice(["[{}, {}]", "({}, {})", "{{'k': {}, 'l': {}}}"]).format(*pair)
        return self.choice(["not {}", "(-{})", "(+{})"]).format(self.expression(depth - 1))

    def tag(self, text):
        return "{%" + self.choice(["", "", "", "-", "+"]) + f" {text} " + self.choice(["", "", "-", "+"]) + "%}"

    def printed(self, text):
        return "{{" + self.choice(["", "", "-"]) + f" {text} " + self.choice(["", "", "-"]) + "}}"

    def body(self, depth):
        parts = [self.choice(SPACE) + self.statement(depth) for _ in range(self.random.randrange(1, 4))]
        return "".join(parts) + self.choice(SPACE)

    def statement(self, depth):
        kind = self.random.randrange(13) if depth > 0 else 0
        tag, body = self.tag, lambda: self.body(depth - 1)
        if kind < 4:
            return self.printed(self.expression(self.random.randrange(0, 3)))
        if kind == 4:
            out = tag("if " + self.expression(2)) + body()
            if self.chance(0.3):
                out += tag("elif " + self.expression(1)) + body()
            if self.chance(0.5):
                out += tag("else") + body()
            return out + tag("endif")
        if kind in (5, 6):
            condition = self.choice(["", "", " if " + self.expression(1)])
            out = tag(f"for {self.choice(['x', 'x', 'x, y'])} in {self.expression(1)}{condition}") + body()
            if self.chance(0.3):
                out += tag("if x") + tag(self.choice(["break", "continue"])) + tag("endif")
            if self.chance(0.4):
                out += self.printed("loop." + self.choice(LOOP))
            if self.chance(0.2):
                out += tag("else") + body()
            return out + tag("endfor")
        if kind == 7:
            return tag(f"set {self.choice(ASSIGNED)} = {self.expression(2)}")
        if kind == 8:
            return tag("set x" + self.choice(["", " | upper", " | trim"])) + body() + tag("endset") + self.printed("x")
        if kind == 9:
            last = self.choice(["b", "varargs", "kwargs", "x", "caller() if caller else 0"])
            arguments = self.choice([self.expression(1), "1, 2", "1, 2, 3", "1, b=2", "c=1", ""])
            out = tag(f"macro m(a, b={self.expression(1)})") + self.printed("a") + body()
            out += self.printed(last) + tag("endmacro") + self.printed(f"m({arguments})")
            if self.chance(0.4):
                out += tag("call m(1)") + body() + tag("endcall")
            return out
        if kind == 10:
            return tag("filter " + self.choice(FILTERS).split("|")[0]) + body() + tag("endfilter")
        if kind == 11:
            out = tag(f"set ns = namespace(a={self.expression(1)})")
            return out + tag(f"set ns.a = {self.expression(1)}") + self.printed("ns.a")
        return self.choice([
            "{# c #}", "{#- c -#}", tag("raw") + "{{ x }}" + tag("endraw"),
            tag(f"with x = {self.expression(1)}") + body() + tag("endwith"),
            tag("generation") + body() + tag("endgeneration"),
        ])

    def template(self):
        return self.printed(self.expression(3)) if self.chance(0.5) else self.body(3)
