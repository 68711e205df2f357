// A metadata store whose texts are in the directory of a durable store. Owned by it.
#pragma once

#include "disk/journal.h"
#include "store/metadata_store.h"

namespace sluice::durable {

class DurableMetadataStore final : public store::MetadataStore {
 public:
  // `texts` outlives it.
  explicit DurableMetadataStore(disk::Texts& texts) : texts_(texts) {}

  bool read(const std::function<void(std::string_view name, std::string_view text)>& visit,
            std::string& problem) override {
    return texts_.read(visit, problem);
  }
  Written write(std::span<const Change> changes, std::string& problem) override {
    std::vector<disk::Texts::Change> all;
    all.reserve(changes.size());
    for (const Change& change : changes) all.push_back({change.name, change.text});
    switch (texts_.write(all, problem)) {
      case disk::Texts::Written::yes:
        return Written::yes;
      case disk::Texts::Written::no:
        return Written::no;
      case disk::Texts::Written::maybe:
        break;
    }
    return Written::maybe;
  }

 private:
  disk::Texts& texts_;
};

}  // namespace sluice::durable
