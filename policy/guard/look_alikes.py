"""Names that a file system or a reader takes for the same name."""

import re
import unicodedata

# Cyrillic, Greek and Armenian letters that look like Latin ones, and dashes, in lower case.
_SAME = str.maketrans(
    "авекмнорстухіјѕһԁԛԝѵɡıαβεικνορτυχϲѡɑօոսհգց\u2010\u2011\u2012\u2013\u2014\u2212\ua4f8",
    "abekmhopctyxijshdqwvgiabeikvoptuxcwaonuhqg------.",
)
_IGNORED = re.compile(
    r"[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufe00-\ufe0f]"
)


def comparable(path: str) -> str:
    """Return a path so that equal ones may be one file on some system, or look like one.

    Case and Unicode forms are folded, invisible characters and look-alikes are replaced, and what
    Windows drops is dropped: dots and spaces at the end of a name, and a stream after a colon.
    """
    if not path.isascii():
        path = unicodedata.normalize("NFKC", path).casefold().translate(_SAME)
        path = "".join(char for char in path if unicodedata.category(char) != "Cf")
        path = _IGNORED.sub("", path)
    path = path.casefold().replace("\\", "/")
    return "/".join(_windows_name(name) for name in path.split("/"))


def _windows_name(name: str) -> str:
    if name in (".", ".."):
        return name
    return (name.partition(":")[0] or name).rstrip(". ") or name
