#include "manifest/registry/transfer/piece_buffers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace moepack::registry {
namespace {

TEST(PieceBuffers, LendsOutAllBuffers) {
  PieceBuffers buffers(2, 5000);
  auto first = buffers.Take();
  const auto second = buffers.Take();
  ASSERT_TRUE(first && second);
  EXPECT_GE(first->bytes().size(), 5000u);
  EXPECT_NE(first->bytes().data(), second->bytes().data());
  std::atomic<bool> given{false};
  std::thread waiting([&] {
    const auto third = buffers.Take();
    EXPECT_TRUE(third);
    EXPECT_TRUE(given);
  });
  given = true;
  first.reset();
  waiting.join();
}

TEST(PieceBuffers, LendsNoBuffersAndWakesWaitersAfterAStop) {
  PieceBuffers buffers(1, 100);
  const auto lease = buffers.Take();
  std::thread waiting([&] { EXPECT_FALSE(buffers.Take()); });
  buffers.Stop();
  waiting.join();
  EXPECT_FALSE(buffers.Take());
}

}  // namespace
}  // namespace moepack::registry
