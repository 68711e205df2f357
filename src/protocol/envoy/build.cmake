# Sources of this folder that are in the client library.
list(APPEND sluice_client_sources src/protocol/envoy/client_dialect.cc)
# What reflection tells of.
target_link_libraries(sluice_protocol_envoy PRIVATE sluice_grpc_proto)
