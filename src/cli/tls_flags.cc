#include "cli/tls_flags.h"

namespace sluice::cli {
namespace {

struct Remedy {
  std::string_view sign, text;
};

// The first whose sign is in the text.
constexpr Remedy remedies[] = {
    {"certificate has expired", "; the server needs a new certificate"},
    {"its certificate is not trusted", "; name its authority by --ca FILE"},
    {"its certificate is not for", "; name the server as its certificate does"},
    {"TLS: it answers in plain text", "; if that port has no TLS, leave it out of the address"},
    {"wants a certificate", "; show one by --cert FILE, with its key"},
    {"the certificate that was shown",
     "; show one by --cert FILE that an authority of the server's client_ca has signed"},
    {": it closed the connection", "; does that port have TLS?"},
    {" by TLS: no answer in time", "; is the server up, and does that port have TLS?"},
};

}  // namespace

void add_tls_flags(Arguments& arguments, TlsFlag& ca, TlsFlag& cert, TlsFlag& key,
                   const std::string& key_option) {
  arguments.add_option("--ca", ca,
                       "The authorities of the server's certificate, beside the system's: a\n"
                       "PEM file",
                       "FILE");
  arguments.add_option("--cert", cert, "A certificate, where the server asks for one: a PEM file",
                       "FILE");
  arguments.add_option(key_option, key, "Its key: a PEM file", "FILE");
}

base::Result<std::optional<net::TlsClient>> tls_of(const TlsFlag& ca, const TlsFlag& cert,
                                                   const TlsFlag& key, bool is_secure,
                                                   const std::string& how) {
  if (cert.has_value() != key.has_value()) return base::Problem{"--cert and its key go together"};
  if (!is_secure && (ca || cert)) return base::Problem{"--ca and --cert are for TLS: write " + how};
  if (!is_secure) return std::optional<net::TlsClient>();
  return std::optional(net::TlsClient{
      .authority = ca.value_or(""), .certificate = cert.value_or(""), .key = key.value_or("")});
}

std::string_view tls_remedy(std::string_view problem) {
  for (const Remedy& one : remedies)
    if (problem.find(one.sign) != problem.npos) return one.text;
  return {};
}

}  // namespace sluice::cli
