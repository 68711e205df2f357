# The example policy is part of the program, so that the program can be tried without a file.
sluice_embed(sluice_protocol_divvy divvy example examples/example-config.ini)

# Sources of this folder that are in the client library.
list(APPEND sluice_client_sources src/protocol/divvy/client_dialect.cc src/protocol/divvy/line.cc
     src/policy/text.cc)
