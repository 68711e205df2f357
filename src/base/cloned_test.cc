// Members that are copied with their owner (base/cloned.h).
#include "base/cloned.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

namespace sluice::base {
namespace {

struct Shape {
  virtual ~Shape() = default;
  virtual std::unique_ptr<Shape> clone() const = 0;
  int size = 0;
};
struct Square : Shape {
  std::unique_ptr<Shape> clone() const override { return std::make_unique<Square>(*this); }
};

TEST(Cloned, ACopyOwnsACopyOfTheObject) {
  Cloned<Shape> one(std::make_unique<Square>());
  one->size = 1;
  Cloned<Shape> copy = one;
  copy->size = 2;
  EXPECT_EQ(one->size, 1);
  one = copy;
  copy->size = 3;
  EXPECT_EQ(one->size, 2);
  EXPECT_NE(dynamic_cast<Square*>(&*one), nullptr);
}

TEST(Cloned, MovesAndMayBeEmpty) {
  Cloned<Shape> one(std::make_unique<Square>());
  const Shape* const object = &*one;
  const Cloned<Shape> moved = std::move(one);
  EXPECT_EQ(&*moved, object);
  const Cloned<Shape> empty, copy = empty;
  EXPECT_FALSE(copy);
}

}  // namespace
}  // namespace sluice::base
