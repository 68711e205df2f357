#include "disk/keys.h"

#include "disk/varint.h"

namespace sluice::disk {

namespace {

template <class Load>
rocksdb::Status read_kind(rocksdb::DB& db, char kind, Load&& load) {
  const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator({}));
  const std::string_view prefix(&kind, 1);
  for (at->Seek(prefix); at->Valid() && at->key().starts_with(prefix); at->Next()) {
    if (!load(dictionary_number(at->key().ToStringView()), at->value().ToStringView())) break;
  }
  return at->status();
}

}  // namespace

std::string dictionary_key(bool is_space, uint32_t number) {
  std::string key(1, is_space ? 's' : 'l');
  for (int shift = 24; shift >= 0; shift -= 8) key += static_cast<char>(number >> shift);
  return key;
}

uint32_t dictionary_number(std::string_view key) {
  uint32_t number = 0;
  for (size_t i = 1; key.size() == 5 && i < 5; ++i)
    number = number << 8 | static_cast<unsigned char>(key[i]);
  return number;
}

std::string folded_value(uint64_t number) {
  char bytes[varint_bytes_max];
  return {bytes, put_varint(bytes, number)};
}

rocksdb::Status read_folded(rocksdb::DB& counters, uint64_t& number) {
  std::string value;
  number = 0;
  const rocksdb::Status status = counters.Get({}, folded_key, &value);
  if (status.IsNotFound()) return rocksdb::Status::OK();
  if (!status.ok()) return status;
  Input input(value);
  if (!input.varint(number) || !input.done())
    return rocksdb::Status::Corruption("the number of the last fold cannot be read");
  return status;
}

std::string epoch_value(uint64_t epoch) {
  char bytes[varint_bytes_max];
  return {bytes, put_varint(bytes, epoch)};
}

rocksdb::Status read_dictionary(rocksdb::DB& db, Dictionary& dictionary, std::string& wrong) {
  rocksdb::Status status = read_kind(db, 's', [&](uint32_t number, std::string_view value) {
    const base::Done done = dictionary.load_space(number, value);
    if (!done) wrong = done.problem().text;
    return static_cast<bool>(done);
  });
  if (!status.ok() || !wrong.empty()) return status;
  return read_kind(db, 'l', [&](uint32_t number, std::string_view value) {
    const base::Done done = dictionary.load_limits(number, value);
    if (!done) wrong = done.problem().text;
    return static_cast<bool>(done);
  });
}

rocksdb::Status read_epoch(rocksdb::DB& db, uint64_t& epoch) {
  std::string value;
  epoch = 0;
  const rocksdb::Status status = db.Get({}, epoch_key, &value);
  if (status.IsNotFound()) return rocksdb::Status::OK();
  if (!status.ok()) return status;
  Input input(value);
  if (!input.varint(epoch) || !input.done() || epoch >= uint64_t{1} << 24)
    return rocksdb::Status::Corruption("the number of its openings cannot be read");
  return status;
}

rocksdb::Status read_last_block(rocksdb::DB& db, uint64_t& number) {
  number = 0;
  const std::unique_ptr<rocksdb::Iterator> at(db.NewIterator({}));
  at->SeekForPrev(BlockKey(UINT64_MAX));
  if (at->Valid() && at->key().starts_with("b") && at->key().size() == 9)
    for (size_t i = 1; i < 9; ++i) number = number << 8 | static_cast<unsigned char>(at->key()[i]);
  return at->status();
}

}  // namespace sluice::disk
