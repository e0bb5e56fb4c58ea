#include "libshard/pack/output_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <optional>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"

namespace moepack {
namespace {

using testing::HasSubstr;

constexpr const char* kEmptyDigest = "99aa06d3014798d86001c324468d497f";  // xxhsum -H2 of no bytes

// An output of the tensors "" "abc" "" "de" "", which are the bytes of one source file.
class OutputStreamTest : public testing::Test {
 protected:
  void SetUp() override {
    layout_.path = "groups/000/x.safetensors";
    layout_.prefix = "head";
    layout_.size = layout_.prefix.size();
    for (const uint64_t bytes : {0, 3, 0, 2, 0}) {
      OutputTensor tensor;
      tensor.entry.offset = layout_.size;
      tensor.entry.bytes = bytes;
      layout_.tensors.push_back(tensor);
      layout_.size += bytes;
    }
    ASSERT_TRUE(fixtures::WriteFile(dir_ / "source", "abcde"));
    ASSERT_TRUE(fixtures::WriteFile(dir_ / "journal", "moepack-journal 1 id\n"));
  }

  // Opens the journal again, as the next run does.
  OutputStream Start() {
    const InsideDirectory directory = InsideDirectory::Open(dir_.path()).value();
    journal_.emplace(Journal::Open(directory, "journal").value());
    OutputStream stream = OutputStream::Open(layout_, 0, directory, *journal_).value();
    EXPECT_TRUE(stream.Resume(buffer_));
    return stream;
  }
  Status Append(OutputStream& stream, uint64_t offset, uint64_t bytes) {
    const InputFile source = InputFile::Open(dir_ / "source").value();
    std::vector<std::byte> data(bytes);
    EXPECT_TRUE(source.ReadAt(offset, data));
    return stream.AppendCopy(source, offset, data);
  }
  std::string Written() const { return fixtures::ReadFile(dir_ / layout_.path); }

  fixtures::TempDir dir_;
  OutputFile layout_;
  std::optional<Journal> journal_;
  std::vector<std::byte> buffer_ = std::vector<std::byte>(2);
};

TEST_F(OutputStreamTest, EmptyTensorsHaveDigestsToo) {
  OutputStream stream = Start();
  EXPECT_EQ(stream.next_tensor(), 1u) << "the first tensor is empty, so it is already finished";
  ASSERT_TRUE(Append(stream, 0, 4));
  EXPECT_EQ(stream.next_tensor(), 3u);
  ASSERT_TRUE(Append(stream, 4, 1));
  const auto digests = stream.Finish();
  ASSERT_TRUE(digests) << digests.error().message;
  ASSERT_EQ(digests->tensors.size(), 5u);
  for (const size_t empty : {0, 2, 4}) EXPECT_EQ(digests->tensors[empty], kEmptyDigest);
  EXPECT_EQ(digests->tensors[1], Xxh3Hex(std::as_bytes(std::span("abc", 3))));
  EXPECT_EQ(digests->sha256, Sha256Hex(std::string_view("headabcde")));
  EXPECT_EQ(Written(), "headabcde");
}

TEST_F(OutputStreamTest, ResumesAfterTheLastFinishedTensor) {
  {
    OutputStream stream = Start();
    ASSERT_TRUE(Append(stream, 0, 4));
  }
  OutputStream stream = Start();
  EXPECT_EQ(stream.position(), 7u) << "only a part of \"de\" had arrived";
  ASSERT_TRUE(Append(stream, 3, 2));
  const auto digests = stream.Finish();
  ASSERT_TRUE(digests) << digests.error().message;
  EXPECT_EQ(digests->sha256, Sha256Hex(std::string_view("headabcde")));
  EXPECT_EQ(Written(), "headabcde");
}

TEST_F(OutputStreamTest, ResumesAFinishedOutputAtItsEnd) {
  {
    OutputStream stream = Start();
    ASSERT_TRUE(Append(stream, 0, 5));
  }
  OutputStream stream = Start();
  EXPECT_EQ(stream.next_tensor(), 5u);
  EXPECT_EQ(stream.Finish()->sha256, Sha256Hex(std::string_view("headabcde")));
}

// As when a run is killed between the lines of the last bytes and of the empty tensor after them.
TEST_F(OutputStreamTest, AnEmptyTensorAtTheEndWithoutALineIsFinishedByTheNextRun) {
  {
    OutputStream stream = Start();
    ASSERT_TRUE(Append(stream, 0, 5));
    ASSERT_EQ(stream.next_tensor(), 5u);
  }
  const std::string journal = fixtures::ReadFile(dir_ / "journal");
  const size_t last_line = journal.rfind('\n', journal.size() - 2) + 1;
  ASSERT_TRUE(fixtures::WriteFile(dir_ / "journal", journal.substr(0, last_line)));
  for (int run = 0; run < 2; ++run) {
    OutputStream stream = Start();
    EXPECT_TRUE(stream.resumed());
    EXPECT_EQ(stream.next_tensor(), 5u);
    const auto digests = stream.Finish();
    ASSERT_TRUE(digests) << digests.error().message;
    ASSERT_EQ(digests->tensors.size(), 5u);
    EXPECT_EQ(digests->tensors[4], kEmptyDigest);
    EXPECT_EQ(Written(), "headabcde");
    EXPECT_EQ(fixtures::ReadFile(dir_ / "journal"), journal);
  }
}

TEST_F(OutputStreamTest, StartsOverWithAnotherHeader) {
  {
    OutputStream stream = Start();
    ASSERT_TRUE(Append(stream, 0, 5));
  }
  layout_.prefix = "HEAD";
  OutputStream stream = Start();
  EXPECT_EQ(stream.position(), 4u);
  EXPECT_EQ(Written(), "HEAD");
}

TEST_F(OutputStreamTest, IgnoresAJournalWithTooManyTensors) {
  {
    OutputStream stream = Start();
    ASSERT_TRUE(Append(stream, 0, 5));
    ASSERT_TRUE(journal_->Add(0, 5, kEmptyDigest));
  }
  EXPECT_EQ(Start().position(), 4u);
}

TEST_F(OutputStreamTest, RefusesMoreBytesThanItsLayoutHas) {
  OutputStream stream = Start();
  ASSERT_TRUE(Append(stream, 0, 5));
  const Status more = Append(stream, 0, 1);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, Code::kMismatch);
  EXPECT_THAT(more.error().message, HasSubstr("expected 9 bytes, found at least 10"));
}

TEST_F(OutputStreamTest, RefusesToFinishTooEarly) {
  OutputStream stream = Start();
  ASSERT_TRUE(Append(stream, 0, 3));
  const auto digests = stream.Finish();
  ASSERT_FALSE(digests);
  EXPECT_EQ(digests.error().code, Code::kMismatch);
  EXPECT_THAT(digests.error().message, HasSubstr("expected 9 bytes written, found 7"));
}

TEST_F(OutputStreamTest, TruncatesBytesAfterTheEnd) {
  {
    OutputStream stream = Start();
    ASSERT_TRUE(Append(stream, 0, 5));
  }
  std::ofstream(dir_ / layout_.path, std::ios::app) << "left over";
  OutputStream stream = Start();
  ASSERT_TRUE(stream.Finish());
  EXPECT_EQ(Written(), "headabcde");
}

TEST_F(OutputStreamTest, FillsGapsOfTheLayoutWithZeros) {
  layout_.tensors[3].entry.offset = 12;  // "de"
  layout_.tensors[4].entry.offset = 16;
  layout_.size = 16;
  const std::string expected("headabc\0\0\0\0\0de\0\0", 16);
  OutputStream stream = Start();
  ASSERT_TRUE(Append(stream, 0, 3));
  EXPECT_EQ(stream.position(), 12u);
  ASSERT_TRUE(Append(stream, 3, 2));
  const auto digests = stream.Finish();
  ASSERT_TRUE(digests) << digests.error().message;
  EXPECT_EQ(digests->tensors[3], Xxh3Hex(std::as_bytes(std::span("de", 2))));
  EXPECT_EQ(digests->sha256, Sha256Hex(expected));
  EXPECT_EQ(Written(), expected);
}

TEST_F(OutputStreamTest, ResumesALayoutWithGaps) {
  layout_.tensors[3].entry.offset = 12;
  layout_.tensors[4].entry.offset = layout_.size = 14;
  {
    OutputStream stream = Start();
    ASSERT_TRUE(Append(stream, 0, 3));
  }
  OutputStream stream = Start();
  EXPECT_TRUE(stream.resumed());
  EXPECT_EQ(stream.position(), 12u);
  ASSERT_TRUE(Append(stream, 3, 2));
  EXPECT_EQ(stream.Finish()->sha256, Sha256Hex(Written()));
}

TEST_F(OutputStreamTest, HashOnlyGivesTheSameDigestsWithoutAFile) {
  OutputStream written = Start();
  ASSERT_TRUE(Append(written, 0, 5));
  OutputStream hashed = OutputStream::HashOnly(layout_);
  ASSERT_TRUE(hashed.Resume(buffer_));
  ASSERT_TRUE(Append(hashed, 0, 5));
  const auto a = written.Finish(), b = hashed.Finish();
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->sha256, b->sha256);
  ASSERT_EQ(a->tensors.size(), 5u);
  ASSERT_EQ(b->tensors.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(a->tensors[i], b->tensors[i]) << i;
}

}  // namespace
}  // namespace moepack
