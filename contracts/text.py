"""Text, as every file, database and model takes it."""

from contracts.errors import BadInput


def check_text(what: str, given: str) -> None:
    """Refuse what is no text in UTF-8, as bytes of a command line may not be, or holds a NUL.

    Raises:
        BadInput: says what is wrong with it.
    """
    if "\0" in given:
        raise BadInput(f"{what} holds a NUL character: it must be text")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"{what} holds {given[error.start]!r}: it must be text in UTF-8") from error
