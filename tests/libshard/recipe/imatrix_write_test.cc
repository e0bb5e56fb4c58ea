#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "libshard/format/gguf.h"
#include "libshard/recipe/imatrix_read.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Imatrix MeasuredSample() {
  Imatrix imatrix;
  imatrix.datasets = {"a.txt", "b.txt"};
  imatrix.chunks = 3;
  imatrix.chunk_tokens = 512;
  imatrix.router_digest = std::string(32, 'a');
  imatrix.entries["blk.0.attn_q.weight"] = {{2, 4, 6}, {7}};
  imatrix.entries["blk.0.ffn_up_exps.weight"] = {{1, 2, 3, 4}, {1, 0}};
  return imatrix;
}

class ImatrixWrite : public testing::Test {
 protected:
  std::string path() const { return (dir_ / "im.gguf").string(); }
  std::string Refusal(const Imatrix& imatrix) const {
    const Status written = WriteImatrix(path(), imatrix);
    EXPECT_FALSE(fs::exists(path()));
    if (written) return "";
    EXPECT_EQ(written.error().code, Code::kCorrupt);
    return written.error().message;
  }
  fixtures::TempDir dir_;
};

TEST_F(ImatrixWrite, IsReadAsItWasWritten) {
  const Imatrix imatrix = MeasuredSample();
  ASSERT_TRUE(WriteImatrix(path(), imatrix));
  const auto read = ReadImatrix(path());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->datasets, imatrix.datasets);
  EXPECT_EQ(read->chunks, 3u);
  EXPECT_EQ(read->chunk_tokens, 512u);
  EXPECT_EQ(read->router_digest, imatrix.router_digest);
  ASSERT_EQ(read->entries.size(), 2u);
  for (const auto& [name, entry] : imatrix.entries) {
    EXPECT_EQ(read->entries.at(name).sums, entry.sums) << name;
    EXPECT_EQ(read->entries.at(name).counts, entry.counts) << name;
  }
}

TEST_F(ImatrixWrite, LaysOutTheTensorsOfLlamaImatrix) {
  ASSERT_TRUE(WriteImatrix(path(), MeasuredSample()));
  const auto bytes = ReadTextFile(path(), 1u << 20);
  ASSERT_TRUE(bytes);
  const auto header = ParseGguf(path(), std::as_bytes(std::span(*bytes)), bytes->size());
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->metadata.String("general.type"), "imatrix");
  ASSERT_EQ(header->tensors.size(), 4u);
  EXPECT_EQ(header->tensors[0].name, "blk.0.attn_q.weight.in_sum2");
  EXPECT_THAT(header->tensors[0].shape, ElementsAre(1, 3));
  EXPECT_EQ(header->tensors[1].name, "blk.0.attn_q.weight.counts");
  EXPECT_THAT(header->tensors[1].shape, ElementsAre(1, 1));
  EXPECT_THAT(header->tensors[2].shape, ElementsAre(2, 2));
  EXPECT_THAT(header->tensors[3].shape, ElementsAre(2, 1));
}

TEST_F(ImatrixWrite, WritesNoMoepackKeyWithoutADigest) {
  Imatrix imatrix = MeasuredSample();
  imatrix.router_digest.clear();
  ASSERT_TRUE(WriteImatrix(path(), imatrix));
  const auto bytes = ReadTextFile(path(), 1u << 20);
  ASSERT_TRUE(bytes);
  EXPECT_THAT(*bytes, testing::Not(HasSubstr("moepack")));
}

TEST_F(ImatrixWrite, RefusesWhatItsReaderWouldRefuse) {
  Imatrix imatrix = MeasuredSample();
  imatrix.entries["blk.0.ffn_up_exps.weight"].sums[2] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(Refusal(imatrix), HasSubstr("entry \"blk.0.ffn_up_exps.weight\": sum 2: expected a "
                                          "finite number, not negative, found inf"));
  imatrix = MeasuredSample();
  imatrix.entries["blk.0.attn_q.weight"].counts = {1, 2};
  EXPECT_THAT(Refusal(imatrix), HasSubstr("equally many sums for each of 2 counts, found 3"));
  imatrix = MeasuredSample();
  imatrix.entries[std::string(60, 'x')] = {{1}, {1}};
  EXPECT_THAT(Refusal(imatrix), HasSubstr("name: expected at most 63 bytes, found 68"));
  imatrix = MeasuredSample();
  imatrix.router_digest = "none";
  EXPECT_THAT(Refusal(imatrix), HasSubstr("moepack.router_digest: expected 32 hexadecimal digits, "
                                          "found \"none\""));
  imatrix.entries.clear();
  EXPECT_THAT(Refusal(imatrix), HasSubstr("expected an entry per weight, found none"));
}

}  // namespace
}  // namespace moepack
