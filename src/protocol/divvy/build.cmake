# The example policy is part of the program, so that it can show itself without a file.
sluice_embed(sluice_protocol_divvy divvy example examples/example-config.ini)
