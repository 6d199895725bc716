"""What of the supervisor's source goes into a container."""

import ast
from pathlib import Path

import pytest

from sandbox import spec, supervisor

FILES = sorted(Path(supervisor.__file__).parent.glob("[!_]*.py"))


class Blanked(ast.NodeTransformer):
    """Takes away what a container needs not: what is written for people, and types."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        match node.value:
            case ast.Constant(value=str()):
                return ast.Expr(ast.Constant(""))
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        return None if node.module == "typing" else node


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_packed_program_differs_in_docstrings_only(file: Path) -> None:
    whole, lean = file.read_text(), spec.lean(file.read_text())
    assert ast.dump(Blanked().visit(ast.parse(whole))) == ast.dump(ast.parse(lean))
    assert '"""' not in lean


def test_the_supervisor_program_is_a_third_of_its_source() -> None:
    whole = sum(len(file.read_text()) for file in FILES)
    assert len(spec.supervisor_argv(1.0)[-1]) < whole / 3
