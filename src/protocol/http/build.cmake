# The description of its answers is served by the protocol itself.
sluice_embed(sluice_protocol_http http openapi docs/openapi-http.json)

# What the client library has of the folder.
list(APPEND sluice_client_sources src/protocol/http/client_dialect.cc src/protocol/http/client_json.cc)
