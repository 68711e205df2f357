#include "disk/importer.h"

#include <cstddef>

#include "disk/layout.h"

namespace sluice::disk {
namespace {

constexpr size_t commit_every = 100'000;

}  // namespace

Importer::Importer(std::unique_ptr<Journal> journal, std::string dir)
    : journal_(std::move(journal)), dir_(std::move(dir)) {}

Importer::~Importer() = default;

base::Result<std::unique_ptr<Importer>> Importer::open(const std::string& dir, base::Time now,
                                                       request::Spaces& spaces) {
  JournalOptions options;
  options.path = dir;
  options.sync = true;
  options.now = [now] { return now; };
  auto journal = Journal::open(std::move(options), spaces);
  if (!journal) return std::move(journal).problem();
  std::unique_ptr<Importer> importer(new Importer(*std::move(journal), dir));
  if (base::Done read = importer->read_unfolded(); !read) return std::move(read).problem();
  importer->journal_->start_folding();
  return importer;
}

base::Done Importer::read_unfolded() {
  if (base::Done read = journal_->read_blocks(); !read) return read;
  return journal_->replay([&](const Record& record) {
    std::pair key(record.space->id, std::string(record.key));
    if (record.cells.empty())
      unfolded_.erase(key);
    else
      unfolded_.insert(std::move(key));
  });
}

base::Result<Importer::Added> Importer::add(const request::Space& space, uint32_t limits_id,
                                            std::string_view key, const limit::State& state) {
  const auto found = journal_->find(space, key, [](const Record&) {});
  if (found == Journal::Found::failed)
    return base::Problem{"the store in " + quoted(dir_) + " cannot be read"};
  if (found == Journal::Found::yes || unfolded_.contains({space.id, std::string(key)}))
    return Added::there;
  const int64_t keep_us = space.keep_fresh_for.us;
  const int64_t forget_us =
      state.fresh_at_us > INT64_MAX - keep_us ? INT64_MAX : state.fresh_at_us + keep_us;
  journal_->add({&space, limits_id, key, {&state, 1}, forget_us});
  if (journal_->pending() >= commit_every)
    if (base::Done done = journal_->commit(); !done) return std::move(done).problem();
  return Added::yes;
}

base::Done Importer::finish() {
  return journal_->commit();
}

}  // namespace sluice::disk
