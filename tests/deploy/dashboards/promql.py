"""The part of PromQL that the checks need: the series that an expression selects and the labels it names."""

import re

KEYWORDS = {"and", "or", "unless", "by", "without", "on", "ignoring", "group_left", "group_right", "offset", "bool", "inf", "nan"}
LABEL_LISTS = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
SELECTOR = re.compile(r"(?<![\w$:])([a-zA-Z_:][\w:]*)\s*(\{[^{}]*\})?(\s*\[[^\]]*\])?(\s*\()?")
MATCHER = re.compile(r'\s*([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*("(?:[^"\\]|\\.)*")\s*,?')


def matchers(text):
    """Split the matchers between the braces into (label, operator, value)."""
    found = [(label, operator, value[1:-1].replace("\\\\", "\\")) for label, operator, value in MATCHER.findall(text)]
    rest = MATCHER.sub("", text).strip()
    if rest:
        raise ValueError(f"cannot read the matchers {text!r}: {rest!r} is left")
    return found


def selectors(expr):
    """Return (metric, matchers, range) for each selector of the expression."""
    masked = LABEL_LISTS.sub(lambda found: " " * len(found[0]), expr)
    # A brace in a string does not close a selector.
    hidden = []

    def hide(found):
        hidden.append(found[0])
        return f'"{len(hidden) - 1}"'

    masked = STRING.sub(hide, masked)
    result = []
    for name, braces, span, call in SELECTOR.findall(masked):
        if call or name.lower() in KEYWORDS or re.fullmatch(r"\d+[smhdwy]", name):
            continue
        inner = re.sub(r'"(\d+)"', lambda found: hidden[int(found[1])], braces[1:-1]) if braces else ""
        result.append((name, matchers(inner), span.strip(" []")))
    return result


def label_lists(expr):
    """Return the lists of labels by which the expression groups or matches series, without those of `group_left`."""
    lists = re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", STRING.sub('""', expr))
    return [{label.strip() for label in found.split(",")} - {""} for found in lists]


def labels(expr):
    """Return all labels by which the expression groups or matches series."""
    return {label.strip() for group in LABEL_LISTS.findall(STRING.sub('""', expr)) for label in group.split(",") if label.strip()}
