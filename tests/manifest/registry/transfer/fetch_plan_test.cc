#include "manifest/registry/transfer/fetch_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "libshard/base/text/text.h"
#include "tests/manifest/registry/transfer/fetch_sample.h"

namespace moepack::registry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FetchPlanTest : public FetchSample {
 protected:
  // Sources of these sizes, named "files/0" and so on.
  void Make(const std::vector<uint64_t>& sizes) {
    for (const uint64_t size : sizes) {
      sources_.push_back(
          std::make_shared<FarSource>(BytesFromSeed(size, static_cast<unsigned>(size))));
      sources_.back()->counts = &counts_;
      const size_t i = items_.size();
      items_.push_back({[this, i]() -> Result<ByteSourcePtr> {
                          const std::lock_guard lock(mutex_);
                          opened_.push_back(i);
                          return ByteSourcePtr(sources_[i]);
                        },
                        sources_[i]->Stated(), Cat("files/", i)});
      items_.back().stated.name = Cat("far: file ", i);
    }
    options_ = SmallCells(3);
  }
  Result<std::vector<FetchReport>> Run() { return FetchFiles(items_, *directory_, options_); }

  std::vector<std::shared_ptr<FarSource>> sources_;
  std::vector<FetchItem> items_;
  FetchOptions options_;
  ReadCounts counts_;
  std::mutex mutex_;
  std::vector<size_t> opened_;
};

TEST_F(FetchPlanTest, FetchesAllFilesOverTheAvailableConnections) {
  Make({5 * kTestCell, 0, 17, 9 * kTestCell + 1, kTestCell, 3});
  options_.files = 4;
  uint64_t done = 0, total = 0;
  options_.progress = [&](uint64_t now, uint64_t all) {
    done = now;
    total = all;
  };
  const auto reports = Run();
  ASSERT_TRUE(reports) << reports.error().message;
  ASSERT_EQ(reports->size(), items_.size());
  for (size_t i = 0; i < items_.size(); ++i) {
    EXPECT_EQ(TextOf(*directory_, items_[i].name), sources_[i]->bytes());
    EXPECT_EQ((*reports)[i].fetched_bytes, sources_[i]->size());
  }
  EXPECT_EQ(Files().size(), items_.size());
  EXPECT_LE(counts_.most, 3u);
  EXPECT_EQ(total, 15 * kTestCell + 21);
  EXPECT_EQ(done, total);
}

TEST_F(FetchPlanTest, StartsWithTheLargestFile) {
  Make({10, 3000, 200});
  options_.files = 1;
  ASSERT_TRUE(Run());
  EXPECT_THAT(opened_, ElementsAre(1, 2, 0));
}

TEST_F(FetchPlanTest, TheFirstErrorStopsTheOthersAndIsReported) {
  Make({30 * kTestCell, 20 * kTestCell});
  options_.files = 2;
  options_.connections = 2;
  // The larger file waits in its first read until the smaller one has failed; then it is stopped.
  std::mutex mutex;
  std::condition_variable changed;
  bool failed = false;
  sources_[1]->before = [&](uint64_t, uint64_t) -> Status {
    const std::lock_guard lock(mutex);
    failed = true;
    changed.notify_all();
    return BrokenOff();
  };
  options_.parallel_from = uint64_t{1} << 40;
  sources_[0]->before = [&](uint64_t, uint64_t) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return failed; });
    return Ok();
  };
  const auto reports = Run();
  ASSERT_FALSE(reports);
  EXPECT_EQ(reports.error().message, BrokenOff().message);
}

TEST_F(FetchPlanTest, ResumesAllFilesAndReportsWhatIsRehashed) {
  Make({20 * kTestCell, 30 * kTestCell});
  for (const auto& source : sources_) source->before = FailAfter(15 * kTestCell);
  ASSERT_FALSE(Run());
  for (const auto& source : sources_) source->before = {};
  uint64_t done = 0, total = 0;
  options_.rehashed = [&](uint64_t now, uint64_t all) {
    done = now;
    total = all;
  };
  const auto reports = Run();
  ASSERT_TRUE(reports) << reports.error().message;
  const uint64_t resumed = (*reports)[0].resumed_bytes + (*reports)[1].resumed_bytes;
  EXPECT_GE(resumed, 10 * kTestCell);
  EXPECT_EQ(done, resumed);
  EXPECT_EQ(total, resumed);
}

TEST_F(FetchPlanTest, RefusesFilesThatDoNotFitBeforeOpeningAny) {
  Make({10});
  items_[0].stated.size = uint64_t{1} << 60;
  const auto reports = Run();
  ASSERT_FALSE(reports);
  EXPECT_EQ(reports.error().code, Code::kIo);
  EXPECT_THAT(reports.error().message, HasSubstr("free space: expected "));
  EXPECT_THAT(reports.error().message, HasSubstr(" on /"));
  EXPECT_TRUE(opened_.empty());
}

TEST_F(FetchPlanTest, ASourceThatCannotBeOpenedIsAnError) {
  Make({10, 20});
  items_[0].open = []() -> Result<ByteSourcePtr> { return BrokenOff(); };
  const auto reports = Run();
  ASSERT_FALSE(reports);
  EXPECT_EQ(reports.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace moepack::registry
