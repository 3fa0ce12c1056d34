#!/usr/bin/env python3
"""Writes tests/text/template_cases.json: small templates and what Python's jinja2 makes of them.

The settings are those Hugging Face renders chat templates with, except that lists and dicts may be
changed (their sandbox refuses it, published templates do it). Needs python3-jinja2 3.1.

    python3 tools/template_cases.py > tests/text/template_cases.json
"""

import datetime
import json
import sys
import warnings

import jinja2
import jinja2.ext
import jinja2.sandbox

sys.path.insert(0, __file__.rsplit("/", 1)[0])
from template_random import Generator  # noqa: E402
from template_snippets import SECTIONS, VARIABLES  # noqa: E402

SEED = 2026
RANDOM_CASES = 500

NOW = datetime.datetime(2026, 1, 15, 12, 0)


class Generation(jinja2.ext.Extension):
    """{% generation %} marks what the model said; rendering only sees a block."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_support")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _support(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def environment():
    env = jinja2.sandbox.SandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols],
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def error_line(error):
    """The template line an exception belongs to."""
    if isinstance(error, jinja2.TemplateSyntaxError):
        return error.lineno
    line = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def run(source, variables):
    try:
        template = environment().from_string(source)
    except Exception as error:  # whatever it is, the template is refused
        return {"parse_error": str(error), "line": error_line(error)}
    try:
        return {"output": template.render(**variables)}
    except Exception as error:
        return {"error": str(error), "line": error_line(error)}


def random_cases():
    """Random templates that render, and some that do not; none that show an address in memory or
    rest on how jinja2 folds constants."""
    generator = Generator(SEED, VARIABLES)
    cases = []
    failing = 0
    while len(cases) < RANDOM_CASES:
        source = generator.template()
        result = run(source, json.loads(json.dumps(VARIABLES)))
        text = result.get("output", "")
        if len(source) > 500 or len(text) > 600 or " at 0x" in text.lower():
            continue
        if "output" not in result:
            failing += 1
            if failing % 10 != 0:
                continue
            # Which of several faults comes first, and on which line, is not to be compared.
            result["line"] = None
        cases.append({"section": "random", "template": source, **result})
    return cases


def main():
    warnings.simplefilter("ignore")
    cases = []
    for section, snippets in SECTIONS.items():
        for snippet in snippets:
            # Fresh variables every time: some snippets change them.
            variables = json.loads(json.dumps(VARIABLES))
            cases.append({"section": section, "template": snippet, **run(snippet, variables)})
    cases += random_cases()
    json.dump(
        {"jinja2": jinja2.__version__, "variables": VARIABLES, "cases": cases},
        sys.stdout,
        ensure_ascii=False,
        indent=1,
    )
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
