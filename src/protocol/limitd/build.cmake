# The example policy is part of the program, so that it can show itself without a file.
sluice_embed(sluice_protocol_limitd limitd example examples/limitd.yaml)

# Its database: brought over by src/protocol/limitd/import.cc.
target_link_libraries(sluice_protocol_limitd PRIVATE ${LEVELDB})

# What the client library has of the folder.
list(APPEND sluice_client_sources src/protocol/limitd/client_dialect.cc src/protocol/limitd/message.cc
     src/protocol/limitd/ring.cc)
