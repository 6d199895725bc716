"""Text, as every file, database and model takes it."""

from contracts.errors import BadInput


def check_text(field_name: str, text: str) -> None:
    """Refuse what is no text in UTF-8, as bytes of a command line may not be, or holds a NUL.

    Raises:
        BadInput: says what is wrong with it.
    """
    if "\0" in text:
        raise BadInput(f"{field_name} holds a NUL character: it must be text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInput(
            f"{field_name} holds {text[error.start]!r}: it must be text in UTF-8"
        ) from error
