"""Whether a server answers; it is asked again and again while one is waited for."""


def is_healthy(url: str, *, accept_refusal: bool = False) -> bool:
    """Whether what is said there is no error; with `or_refuses` a refusal is an answer too."""
    import httpx

    try:
        # Loading certificates takes 25 ms, and a server on this machine has none.
        said = httpx.get(url, timeout=5.0, verify=url.startswith("https:"))
    except httpx.HTTPError:
        return False
    return not said.is_server_error if accept_refusal else said.is_success
