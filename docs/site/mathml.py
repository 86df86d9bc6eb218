"""mathml.py - an extension of Sphinx: formulas as MathML, which browsers draw without a script

MathJax comes from another host or adds a megabyte to a site; MathML is part of the page.
"""

import latex2mathml.converter


def convert(text, display):
    return latex2mathml.converter.convert(text.strip(), display=display)


def visit_inline(writer, node):
    from docutils import nodes

    writer.body.append(convert(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(writer, node):
    from docutils import nodes

    writer.body.append(f'<div class="formula">{convert(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
