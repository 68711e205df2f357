// The C interface over sluice::durable.
#include <sluice/durable.h>
#include <sluice/sluice_durable.h>

#include <cstdint>
#include <string>
#include <utility>

#include "embed/c_values.h"

struct sluice_durable {
  // The limiter is taken out of it: both keep the same counters alive.
  sluice::durable its;
  sluice_limiter limiter;
};

namespace {

using sluice::errc;
using sluice::embed::fail;

sluice::result<sluice::durable_options> place_of(const sluice_durable_options& given) {
  const auto known = sluice::embed::known_of(given, "sluice_durable_options");
  if (!known) return known.why();
  const sluice_durable_options& all = *known;
  sluice::durable_options where;
  if (all.directory != nullptr) where.directory = all.directory;
  where.sync = all.sync != 0;
  where.commit_every = sluice::duration(all.commit_every_us);
  if (all.tell != nullptr)
    where.tell = [tell = all.tell, data = all.tell_data](const std::string& text) {
      tell(data, text.c_str());
    };
  return where;
}

}  // namespace

extern "C" {

sluice_durable* sluice_durable_open(const sluice_durable_options* where,
                                    const sluice_options* options, sluice_error* error) {
  return sluice::embed::guarded_pointer<sluice_durable>(error, [&]() -> sluice_durable* {
    const auto failed = [&](const sluice::error& why) -> sluice_durable* {
      fail(why, error);
      return nullptr;
    };
    if (where == nullptr) return failed(sluice::embed::missing("where"));
    auto place = place_of(*where);
    if (!place) return failed(place.why());
    auto how = sluice::embed::options_of(options);
    if (!how) return failed(how.why());
    auto opened = sluice::durable::open(*std::move(place), *std::move(how));
    if (!opened) return failed(opened.why());
    sluice::limiter limiter = std::move(**opened);
    sluice::embed::done(error);
    return new sluice_durable{*std::move(opened), {std::move(limiter)}};
  });
}

sluice_limiter* sluice_durable_limiter(sluice_durable* durable) {
  return durable == nullptr ? nullptr : &durable->limiter;
}

int32_t sluice_durable_commit(sluice_durable* durable, sluice_error* error) {
  if (durable == nullptr) return fail(errc::invalid_argument, "durable must not be null", error);
  const auto kept = durable->its.commit();
  return kept ? sluice::embed::done(error) : fail(kept.why(), error);
}

void sluice_durable_close(sluice_durable* durable) {
  delete durable;
}

}  // extern "C"
