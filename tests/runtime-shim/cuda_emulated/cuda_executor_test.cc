// What the suite of all executors does not cover: errors of the device, memory, and the ring for
// transfers.
#include "runtime-shim/cuda/cuda_executor.h"

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "runtime-shim/cuda/cuda.h"

namespace moepack::runtime {
namespace {

class CudaEmulated : public ::testing::Test {
 protected:
  void SetUp() override { emulation::TheMachine() = {}; }
  void TearDown() override { emulation::TheMachine() = {}; }

  static std::unique_ptr<Executor> Open() {
    auto executor = OpenCuda({});
    EXPECT_TRUE(executor.has_value()) << executor.error().message;
    return std::move(*executor);
  }
};

Rows RowsIn(const BufferPtr& buffer, uint32_t count, uint32_t width) {
  return {buffer.get(), 0, count, width, width};
}

std::vector<float> Counted(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

TEST_F(CudaEmulated, ListsDevicesWithTheirMemoryAndCapability) {
  EXPECT_EQ(CudaDevices(), "0: emulated, 1.07 GB, compute capability 9.0\n");
  EXPECT_EQ(Open()->description(), "emulated, compute capability 9.0, 1.07 GB");
}

TEST_F(CudaEmulated, IsUnavailableWithoutADevice) {
  emulation::TheMachine().devices = 0;
  EXPECT_EQ(CudaDevices(), "");
  const auto executor = OpenCuda({});
  ASSERT_FALSE(executor.has_value());
  EXPECT_EQ(executor.error().code, Code::kUnavailable);
  EXPECT_EQ(executor.error().message,
            "cuda: no device can be used: no CUDA-capable device is detected");
}

TEST_F(CudaEmulated, AMissingDeviceIsUnavailable) {
  const auto executor = OpenCuda({.device = 3});
  ASSERT_FALSE(executor.has_value());
  EXPECT_EQ(executor.error().code, Code::kUnavailable);
  EXPECT_EQ(executor.error().message, "cuda: device 3: expected one of 1 device, counted from 0");
}

TEST_F(CudaEmulated, ADeviceWithoutCodeForItIsUnavailable) {
  emulation::TheMachine().major = 7;
  emulation::TheMachine().minor = 0;
  EXPECT_NE(CudaDevices().find(", too old"), std::string::npos);
  const auto executor = OpenCuda({});
  ASSERT_FALSE(executor.has_value());
  EXPECT_EQ(executor.error().code, Code::kUnavailable);
  EXPECT_EQ(executor.error().message,
            "cuda: device 0: expected compute capability 7.5 or above, found 7.0");
}

TEST_F(CudaEmulated, TooLittleMemoryIsAnErrorThatNamesTheBytes) {
  const auto executor = Open();
  const uint64_t before = executor->available();
  const auto buffer = executor->Allocate(5'000'000'000);
  ASSERT_FALSE(buffer.has_value());
  EXPECT_EQ(buffer.error().code, Code::kUnavailable);
  EXPECT_NE(buffer.error().message.find("expected 5000000000 bytes of memory, found "),
            std::string::npos)
      << buffer.error().message;
  const ByteView all(static_cast<const std::byte*>(nullptr), SIZE_MAX);
  EXPECT_FALSE(executor->Load(all).has_value());
  // The executor still works.
  EXPECT_EQ(executor->available(), before);
  EXPECT_TRUE(executor->Allocate(1000).has_value());
  EXPECT_TRUE(executor->Finish().has_value());
}

TEST_F(CudaEmulated, AvailableMemoryDropsAndEverythingIsFreed) {
  const size_t before = emulation::BytesInUse();
  {
    const auto executor = Open();
    const uint64_t free = executor->available();
    const auto buffer = executor->Allocate(1 << 20);
    ASSERT_TRUE(buffer.has_value());
    EXPECT_LE(executor->available(), free - (1 << 20));
  }
  EXPECT_EQ(emulation::BytesInUse(), before);
}

TEST_F(CudaEmulated, ALostDeviceIsReportedFromTheNextReadOn) {
  const auto executor = Open();
  auto buffer = executor->Allocate(64 * sizeof(float));
  ASSERT_TRUE(buffer.has_value());
  const Rows rows = RowsIn(*buffer, 1, 64);
  executor->Write(Counted(64), rows);
  EXPECT_TRUE(executor->Finish().has_value());

  emulation::TheMachine().lost = true;
  executor->Scale(rows, 2);
  std::vector<float> values(64);
  for (int i = 0; i < 2; ++i) {
    const auto read = executor->Read(rows, values);
    ASSERT_FALSE(read.has_value());
    EXPECT_EQ(read.error().code, Code::kUnavailable);
    EXPECT_EQ(read.error().message, "cuda: device: an illegal memory access was encountered");
    emulation::TheMachine().lost = false;  // the first error stays
  }
  EXPECT_FALSE(executor->Finish().has_value());
  EXPECT_FALSE(executor->Allocate(1).has_value());
}

// More than the ring holds, so that its parts are reused while the device is behind.
TEST_F(CudaEmulated, UploadsMoreThanTheRingHolds) {
  const auto executor = Open();
  const std::vector<float> values = Counted(7'000'001);
  const auto bytes = std::as_bytes(std::span(values));
  const auto loaded = executor->Load(bytes);
  ASSERT_TRUE(loaded.has_value());
  std::vector<float> found(values.size());
  const auto width = static_cast<uint32_t>(values.size());
  ASSERT_TRUE(executor->Read(RowsIn(*loaded, 1, width), found).has_value());
  EXPECT_TRUE(found == values);
}

TEST_F(CudaEmulated, HostMemoryMayChangeAfterAWrite) {
  const auto executor = Open();
  auto buffer = executor->Allocate(6 * sizeof(float));
  ASSERT_TRUE(buffer.has_value());
  std::vector<float> values = Counted(6);
  executor->Write(values, RowsIn(*buffer, 2, 3));
  std::fill(values.begin(), values.end(), 0.0f);
  ASSERT_TRUE(executor->Read(RowsIn(*buffer, 2, 3), values).has_value());
  EXPECT_EQ(values, Counted(6));
}

// Row numbers are passed as kernel parameters, 480 at a time.
TEST_F(CudaEmulated, GathersAndScattersMoreRowsThanAKernelTakes) {
  constexpr uint32_t kCount = 1100;
  const auto executor = Open();
  auto from = executor->Allocate(kCount * sizeof(float));
  auto to = executor->Allocate(kCount * sizeof(float));
  ASSERT_TRUE(from.has_value() && to.has_value());
  const Rows x = RowsIn(*from, kCount, 1), y = RowsIn(*to, kCount, 1);
  executor->Write(Counted(kCount), x);
  std::vector<uint32_t> backwards(kCount);
  std::iota(backwards.rbegin(), backwards.rend(), 0u);
  executor->Gather(x, backwards, std::vector<float>(kCount, 2.0f), y);
  executor->ScatterAdd(y, backwards, std::vector<float>(kCount, 1.0f), x);
  executor->ScaleRows(y, Counted(kCount));
  std::vector<float> found(kCount);
  ASSERT_TRUE(executor->Read(y, found).has_value());
  for (uint32_t i = 0; i < kCount; ++i) {
    const auto value = static_cast<float>(kCount - i), row = static_cast<float>(i + 1);
    ASSERT_EQ(found[i], (2 * value + value) * row) << i;
  }
}

// A matrix at an address that no kernel can read is moved first.
TEST_F(CudaEmulated, MultipliesWeightsAtAnyAddress) {
  const auto executor = Open();
  const quant::Format& format = *quant::FindFormat("q4_K");
  constexpr uint32_t kRows = 3, kColumns = 512;
  const std::vector<float> weights(kRows * kColumns, 1.0f);
  std::vector<std::byte> bytes(*format.BytesFor(weights.size()) + 7);
  format.encode(weights, {}, std::span(bytes).subspan(7));
  const auto loaded = executor->Load(bytes);
  auto x = executor->Allocate(kColumns * sizeof(float));
  auto y = executor->Allocate(kRows * sizeof(float));
  ASSERT_TRUE(loaded.has_value() && x.has_value() && y.has_value());
  executor->Write(std::vector<float>(kColumns, 1.0f), RowsIn(*x, 1, kColumns));
  const size_t before = emulation::BytesInUse();
  executor->MatMul({loaded->get(), 7, &format, kRows, kColumns}, RowsIn(*x, 1, kColumns),
                   RowsIn(*y, 1, kRows));
  std::vector<float> found(kRows);
  ASSERT_TRUE(executor->Read(RowsIn(*y, 1, kRows), found).has_value());
  for (const float value : found) EXPECT_NEAR(value, kColumns, 1);
  EXPECT_EQ(emulation::BytesInUse(), before);
}

// Enough rows that four of them share a warp.
TEST_F(CudaEmulated, MultipliesManyRows) {
  const auto executor = Open();
  const quant::Format& format = *quant::FindFormat("f32");
  constexpr uint32_t kRows = 4 * 8 * 2 + 13, kColumns = 260;
  const std::vector<float> weights = Counted(kRows * kColumns);
  const auto loaded = executor->Load(std::as_bytes(std::span(weights)));
  auto x = executor->Allocate(kColumns * sizeof(float));
  auto y = executor->Allocate(kRows * sizeof(float));
  ASSERT_TRUE(loaded.has_value() && x.has_value() && y.has_value());
  executor->Write(std::vector<float>(kColumns, 1.0f), RowsIn(*x, 1, kColumns));
  executor->MatMul({loaded->get(), 0, &format, kRows, kColumns}, RowsIn(*x, 1, kColumns),
                   RowsIn(*y, 1, kRows));
  std::vector<float> found(kRows);
  ASSERT_TRUE(executor->Read(RowsIn(*y, 1, kRows), found).has_value());
  for (uint32_t r = 0; r < kRows; ++r) {
    const double first = static_cast<double>(r) * kColumns + 1;
    const double sum = kColumns * (first + first + kColumns - 1) / 2;
    EXPECT_NEAR(found[r], sum, sum * 1e-6) << r;
  }
}

}  // namespace
}  // namespace moepack::runtime
