# The example policy is part of the program, so that the program can be tried without a file.
sluice_embed(sluice_protocol_limitd limitd example examples/limitd.yaml)

# limitd's database, which src/protocol/limitd/import.cc imports.
target_link_libraries(sluice_protocol_limitd PRIVATE ${LEVELDB})

# Sources of this folder that are in the client library.
list(APPEND sluice_client_sources src/protocol/limitd/client_dialect.cc src/protocol/limitd/message.cc
     src/protocol/limitd/ring.cc)
