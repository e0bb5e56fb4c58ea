#include "manifest/registry/server/upload_body.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/files/memory_tree.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;

class UploadBodyTest : public testing::Test {
 protected:
  static std::string Bytes() {
    std::string text(10000, '\0');
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 % 251);
    return text;
  }
  static BlobRecord BlobOf(const std::string& bytes) {
    return {"type", DigestOf(Sha256Hex(bytes)), bytes.size()};
  }
  UploadBody Body() {
    return UploadBody(source_, blob_, [this](uint64_t bytes) { told_ += bytes; });
  }
  static std::string Read(UploadBody& body, uint64_t offset, size_t size) {
    std::string out(size, '\0');
    const Status read = body.Read(offset, std::as_writable_bytes(std::span(out)));
    return read ? out : read.error().message;
  }

  const MemorySource source_{"file", Bytes()};
  BlobRecord blob_ = BlobOf(Bytes());
  uint64_t told_ = 0;
};

TEST_F(UploadBodyTest, GivesBytesInPiecesAndRepeatedly) {
  UploadBody body = Body();
  ASSERT_TRUE(body.Restart());
  EXPECT_EQ(Read(body, 0, 4000), Bytes().substr(0, 4000));
  EXPECT_EQ(Read(body, 1000, 5000), Bytes().substr(1000, 5000));
  EXPECT_EQ(Read(body, 0, 100), Bytes().substr(0, 100));
  EXPECT_EQ(Read(body, 6000, 4000), Bytes().substr(6000));
  EXPECT_EQ(Read(body, 5000, 5000), Bytes().substr(5000));
  EXPECT_EQ(told_, 10000u);
  ASSERT_TRUE(body.Restart());
  EXPECT_EQ(Read(body, 0, 10000), Bytes());
  EXPECT_EQ(told_, 10000u) << "bytes sent again are not reported again";
}

TEST_F(UploadBodyTest, HashesBytesThatAnotherProcessSent) {
  UploadBody body = Body();
  ASSERT_TRUE(body.Restart());
  EXPECT_EQ(Read(body, 7000, 3000), Bytes().substr(7000));
  EXPECT_EQ(told_, 10000u);
}

TEST_F(UploadBodyTest, WithholdsTheLastBytesOfWrongContent) {
  std::string other = Bytes();
  other[5] ^= 1;
  blob_ = BlobOf(other);
  UploadBody body = Body();
  ASSERT_TRUE(body.Restart());
  EXPECT_EQ(Read(body, 0, 9999), Bytes().substr(0, 9999));
  std::byte last;
  const Status read = body.Read(9999, {&last, 1});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kMismatch);
  EXPECT_EQ(read.error().message,
            Cat("file: sha256: expected ", Sha256Hex(other), ", found ", Sha256Hex(Bytes())));
}

TEST_F(UploadBodyTest, RefusesAWrongSizeAtOnce) {
  blob_.size = 9;
  UploadBody body = Body();
  const Status started = body.Restart();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Code::kMismatch);
  EXPECT_EQ(started.error().message, "file: size: expected 9 bytes, found 10000");
}

TEST_F(UploadBodyTest, ChecksTheDigestOfAnEmptyBody) {
  const MemorySource empty("empty", "");
  BlobRecord blob = BlobOf("");
  EXPECT_TRUE(UploadBody(empty, blob, {}).Restart());
  blob.digest = BlobOf("x").digest;
  EXPECT_EQ(UploadBody(empty, blob, {}).Restart().error().code, Code::kMismatch);
}

// A source that asks another machine for every read.
class FarSource final : public ByteSource {
 public:
  explicit FarSource(const ByteSource& source) : source_(source) {}
  const std::string& name() const override { return source_.name(); }
  uint64_t size() const override { return source_.size(); }
  const std::string& identity() const override { return source_.identity(); }
  bool far() const override { return true; }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    ++reads_;
    return source_.ReadAt(offset, out);
  }
  Status CheckUnchanged() const override { return Ok(); }
  int reads() const { return reads_; }

 private:
  const ByteSource& source_;
  mutable int reads_ = 0;
};

TEST_F(UploadBodyTest, ReadsARemoteSourceInLongSteps) {
  const FarSource far(source_);
  UploadBody body(far, blob_, {});
  ASSERT_TRUE(body.Restart());
  std::string all;
  for (uint64_t at = 0; at < 10000; at += 100) all += Read(body, at, 100);
  EXPECT_EQ(all, Bytes());
  EXPECT_EQ(far.reads(), 1);
}

}  // namespace
}  // namespace moepack::registry
