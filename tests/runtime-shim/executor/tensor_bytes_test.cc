#include "runtime-shim/executor/tensor_bytes.h"

#include <gtest/gtest.h>

#include <array>

namespace moepack::runtime {
namespace {

class TensorBytesOf : public testing::Test {
 protected:
  ByteView At(size_t first, size_t count) const { return ByteView(memory_).subspan(first, count); }
  std::array<std::byte, 100> memory_{};
};

TEST_F(TensorBytesOf, NothingAreEmpty) {
  const TensorBytes none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.first(), nullptr);
  EXPECT_TRUE(none.whole().empty());
  EXPECT_TRUE(TensorBytes(std::vector<ByteView>()).empty());
}

TEST_F(TensorBytesOf, OnePlaceAreTheWhole) {
  const TensorBytes bytes = At(10, 30);
  EXPECT_EQ(bytes.size(), 30u);
  EXPECT_EQ(bytes.whole().data(), &memory_[10]);
  EXPECT_EQ(bytes.Part(5, 25).data(), &memory_[15]);
  EXPECT_EQ(bytes.views().size(), 1u);
}

TEST_F(TensorBytesOf, ExpertsApartAreFoundByTheirOffset) {
  const TensorBytes bytes(std::vector<ByteView>{At(80, 10), At(0, 10), At(40, 10)});
  EXPECT_EQ(bytes.size(), 30u);
  EXPECT_EQ(bytes.first(), &memory_[80]);
  EXPECT_EQ(bytes.Part(0, 10).data(), &memory_[80]);
  EXPECT_EQ(bytes.Part(10, 3).data(), &memory_[0]);
  EXPECT_EQ(bytes.Part(29, 1).data(), &memory_[49]);
  EXPECT_EQ(bytes.Part(29, 1).size(), 1u);
  EXPECT_EQ(bytes.views().size(), 3u);
}

TEST_F(TensorBytesOf, ExpertsThatFollowEachOtherAreInOnePlace) {
  const TensorBytes bytes(std::vector<ByteView>{At(20, 10), At(30, 10), At(40, 10)});
  EXPECT_EQ(bytes.whole().data(), &memory_[20]);
  EXPECT_EQ(bytes.whole().size(), 30u);
}

}  // namespace
}  // namespace moepack::runtime
