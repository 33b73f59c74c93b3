"""One module per command, or per family of commands; `holdfast.cli.app` lists them."""
