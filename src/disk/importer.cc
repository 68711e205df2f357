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

std::unique_ptr<Importer> Importer::open(const std::string& dir, base::Time now,
                                         request::Spaces& spaces, std::string& problem) {
  JournalOptions options;
  options.path = dir;
  options.sync = true;
  options.now = [now] { return now; };
  auto journal = Journal::open(std::move(options), spaces, problem);
  if (!journal) return nullptr;
  std::unique_ptr<Importer> importer(new Importer(std::move(journal), dir));
  if (!importer->read_unfolded(problem)) return nullptr;
  importer->journal_->start_folding();
  return importer;
}

bool Importer::read_unfolded(std::string& problem) {
  return journal_->read_blocks(problem) &&
         journal_->replay(
             [&](const Record& record) {
               std::pair key(record.space->id, std::string(record.key));
               if (record.cells.empty())
                 unfolded_.erase(key);
               else
                 unfolded_.insert(std::move(key));
             },
             problem);
}

Importer::Added Importer::add(const request::Space& space, uint32_t limits_id, std::string_view key,
                              const limit::State& state, std::string& problem) {
  const auto found = journal_->find(space, key, [](const Record&) {});
  if (found == Journal::Found::failed) {
    problem = "the store in " + quoted(dir_) + " cannot be read";
    return Added::failed;
  }
  if (found == Journal::Found::yes || unfolded_.contains({space.id, std::string(key)}))
    return Added::there;
  const int64_t keep_us = space.keep_fresh_for.us;
  const int64_t forget_us =
      state.fresh_at_us > INT64_MAX - keep_us ? INT64_MAX : state.fresh_at_us + keep_us;
  journal_->add({&space, limits_id, key, {&state, 1}, forget_us});
  return journal_->pending() >= commit_every && !journal_->commit(problem) ? Added::failed
                                                                           : Added::yes;
}

bool Importer::finish(std::string& problem) {
  return journal_->commit(problem);
}

}  // namespace sluice::disk
