// An object of a class with virtual functions, held like a value: a copy of the holder has a copy
// of the object, made by its `clone()`. One thread at a time.
#pragma once

#include <memory>
#include <utility>

namespace sluice::base {

template <class T>
class Cloned {
 public:
  Cloned() = default;
  explicit Cloned(std::unique_ptr<T> object) : object_(std::move(object)) {}
  Cloned(const Cloned& other) : object_(other.object_ ? other.object_->clone() : nullptr) {}
  Cloned(Cloned&&) noexcept = default;
  Cloned& operator=(Cloned other) noexcept {
    object_ = std::move(other.object_);
    return *this;
  }
  ~Cloned() = default;

  explicit operator bool() const { return object_ != nullptr; }
  T& operator*() { return *object_; }
  const T& operator*() const { return *object_; }
  T* operator->() { return object_.get(); }
  const T* operator->() const { return object_.get(); }

 private:
  std::unique_ptr<T> object_;
};

}  // namespace sluice::base
