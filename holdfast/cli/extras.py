"""What the installed package lacks for a command: which extra it is in, and how to install it."""

OF_SERVERS = (
    "asyncpg",
    "cronsim",
    "cryptography",
    "httptools",
    "joserfc",
    "numpy",
    "obstore",
    "prometheus_client",
    "starlette",
    "tzdata",
    "uvicorn",
)
REMEDY = "this command needs {name}, which only servers do; run `pip install 'holdfast[server]'`"


def find_remedy(error: ModuleNotFoundError) -> str | None:
    """Say what to install for a module that Holdfast itself looked for; None for any other."""
    name = (error.name or "").partition(".")[0]
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    importer = "" if last is None else last.tb_frame.f_globals.get("__name__", "")
    is_ours = name in OF_SERVERS and importer.partition(".")[0] == "holdfast"
    return REMEDY.format(name=name) if is_ours else None
