"""A figure as the bytes of a file, with its words for those who cannot see it."""

import io
from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape

FORMATS = (".svg", ".png")


def rendered(figure: Any, suffix: str, words: Mapping[str, str]) -> bytes:  # noqa: ANN401 (matplotlib)
    """The file of one of FORMATS; *words* are its Title and Description.

    An SVG has its description where screen readers look for it.
    """
    file = io.BytesIO()
    if suffix == ".png":
        figure.savefig(file, format="png", dpi=150, metadata={**words, "Software": None})
        return file.getvalue()
    figure.savefig(file, format="svg", metadata={"Title": words["Title"], "Date": None})
    told = f"</title>\n <desc>{escape(words['Description'])}</desc>"
    return file.getvalue().decode("utf-8").replace("</title>", told, 1).encode("utf-8")
