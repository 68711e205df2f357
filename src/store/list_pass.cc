#include "store/list_pass.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "store/catalog.h"

namespace sluice::store {

void PrefixIndex::add(uint32_t group, std::string prefix, size_t number) {
  nodes_.push_back({group, std::move(prefix), number});
}

void PrefixIndex::close() {
  std::sort(nodes_.begin(), nodes_.end(), [](const Node& a, const Node& b) {
    return std::tie(a.group, a.prefix, a.number) < std::tie(b.group, b.prefix, b.number);
  });
  const Node* open = nullptr;  // the prefixes that the next one may begin with, linked by `parent`
  for (Node& node : nodes_) {
    while (open != nullptr && (open->group != node.group || !node.prefix.starts_with(open->prefix)))
      open = open->parent;
    node.parent = open;
    open = &node;
  }
}

const PrefixIndex::Node* PrefixIndex::last_up_to(uint32_t group, std::string_view text) const {
  const auto behind = std::upper_bound(
      nodes_.begin(), nodes_.end(), text, [group](std::string_view wanted, const Node& node) {
        return group != node.group ? group < node.group : wanted < node.prefix;
      });
  if (behind == nodes_.begin() || std::prev(behind)->group != group) return nullptr;
  return &*std::prev(behind);
}

std::string_view PrefixIndex::common() const {
  if (nodes_.empty()) return {};
  std::string_view all = nodes_.front().prefix;
  for (const Node& node : nodes_) {
    const auto end = std::mismatch(all.begin(), all.end(), node.prefix.begin(), node.prefix.end());
    all = all.substr(0, static_cast<size_t>(end.first - all.begin()));
  }
  return all;
}

size_t ListPass::add(const request::Space& space, std::string_view prefix) {
  const auto [at, is_new] = numbers_.try_emplace({space.id, std::string(prefix)}, lists_.size());
  if (is_new) {
    WantedKeys& list = lists_.emplace_back();
    list.space = &space;
    list.prefix = prefix;
  }
  lists_[at->second].wanted.fetch_add(1, std::memory_order_relaxed);
  wanted_.fetch_add(1, std::memory_order_relaxed);
  return at->second;
}

void ListPass::cancel(size_t number) {
  lists_[number].wanted.fetch_sub(1, std::memory_order_relaxed);
  wanted_.fetch_sub(1, std::memory_order_relaxed);
}

void ListPass::visit(uint32_t space, std::string_view key) {
  if (!index_) {
    index_.emplace();
    for (size_t i = 0; i < lists_.size(); ++i)
      index_->add(lists_[i].space->id, lists_[i].prefix, i);
    index_->close();
  }
  index_->each(space, key, [&](size_t number) { offer(number, key); });
}

void ListPass::offer(size_t number, std::string_view key) {
  WantedKeys& list = lists_[number];
  if ((list.cut && key >= *list.cut) || !is_wanted(number) || bounds_.keys == 0) return;
  if (!list.keys.emplace(key).second) return;
  list.bytes += key.size();
  while (list.keys.size() > bounds_.keys || (list.bytes > bounds_.bytes && list.keys.size() > 1)) {
    list.bytes -= list.keys.rbegin()->size();
    list.cut = std::move(list.keys.extract(std::prev(list.keys.end())).value());
  }
}

void Catalog::list_all(ListPass& pass) {
  for (size_t i = 0; i < pass.size(); ++i) {
    if (!pass.is_wanted(i)) continue;
    for (const std::string& key : list(pass.space(i), pass.prefix(i), pass.keys_max()))
      pass.offer(i, key);
  }
}

std::vector<std::string> ListPass::take(size_t number) {
  auto& keys = lists_[number].keys;
  std::vector<std::string> all;
  all.reserve(keys.size());
  while (!keys.empty()) all.push_back(std::move(keys.extract(keys.begin()).value()));
  return all;
}

}  // namespace sluice::store
