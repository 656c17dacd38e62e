"""The `toposcope` command. Each subcommand is one module, loaded only when it is called."""
