#include "libshard/base/files/zstd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zstd.h>

#include <random>

#include "libshard/base/files/memory_tree.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Result<std::string> TextOf(const std::string& bytes) {
  const MemorySource source("t.zst", bytes);
  SourceText text(source);
  std::string whole;
  while (true) {
    SHARD_TRY(const std::string_view piece, text.Next());
    if (piece.empty()) return whole;
    whole += piece;
  }
}

Error ErrorOf(const std::string& bytes) {
  const auto text = TextOf(bytes);
  if (text) return {Code::kInterrupted, "was read"};
  return text.error();
}

std::string AnyBytes(size_t size) {
  std::mt19937 random(7);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

std::string Frames(std::initializer_list<std::string_view> texts) {
  ZstdWriter writer;
  std::string frames;
  for (const std::string_view text : texts) frames += writer.Frame(text);
  return frames;
}

// What others write: one frame with these parameters.
std::string FrameWith(const std::string& text, ZSTD_cParameter parameter, int value) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  EXPECT_FALSE(ZSTD_isError(ZSTD_CCtx_setParameter(context, parameter, value)));
  std::string frame(ZSTD_compressBound(text.size()), '\0');
  ZSTD_outBuffer out = {frame.data(), frame.size(), 0};
  ZSTD_inBuffer in = {text.data(), text.size(), 0};
  while (in.pos < in.size) ZSTD_compressStream2(context, &out, &in, ZSTD_e_continue);
  EXPECT_EQ(ZSTD_compressStream2(context, &out, &in, ZSTD_e_end), 0u);
  ZSTD_freeCCtx(context);
  return frame.substr(0, out.pos);
}

// A frame without checksum whose blocks each repeat a space 128 Ki times, in four bytes.
std::string Bomb(size_t blocks) {
  std::string frame("\x28\xb5\x2f\xfd\x00\x68", 6);
  for (size_t i = 1; i <= blocks; ++i) {
    const uint32_t header = (128u << 10) << 3 | 1u << 1 | (i == blocks ? 1u : 0u);
    for (int byte = 0; byte < 3; ++byte) frame += static_cast<char>(header >> (8 * byte));
    frame += ' ';
  }
  return frame;
}

TEST(ZstdText, FramesAreOneText) {
  EXPECT_EQ(TextOf(Frames({"one ", "", "two"})).value(), "one two");
  EXPECT_EQ(TextOf(Frames({""})).value(), "");
  EXPECT_EQ(TextOf("plain").value(), "plain");
  EXPECT_EQ(TextOf("").value(), "");
}

// Longer than the windows of the reader, so frames and pieces cross their borders.
TEST(ZstdText, ReadsBackTextsOfEveryLength) {
  for (const size_t size :
       {size_t{1}, size_t{4}, kTextPiece - 1, kTextPiece, kTextPiece + 1, 3 * kTextPiece + 17}) {
    const std::string text = AnyBytes(size);
    EXPECT_TRUE(TextOf(Frames({text, "x", text})).value() == text + "x" + text) << size;
    EXPECT_TRUE(TextOf(text).value() == text) << size;
  }
}

TEST(ZstdText, LibzstdReadsTheSame) {
  const std::string frame = Frames({"some text, some text"});
  std::string text(100, '\0');
  const size_t size = ZSTD_decompress(text.data(), text.size(), frame.data(), frame.size());
  EXPECT_EQ(text.substr(0, size), "some text, some text");
}

TEST(ZstdText, ReadsFramesOfOthers) {
  const std::string text = AnyBytes(1000) + std::string(5000, 'x');
  EXPECT_TRUE(TextOf(FrameWith(text, ZSTD_c_checksumFlag, 0)).value() == text);
  EXPECT_TRUE(TextOf(FrameWith(text, ZSTD_c_compressionLevel, 19)).value() == text);
  const std::string skipped("\x50\x2a\x4d\x18\x03\0\0\0abc", 11);
  EXPECT_EQ(TextOf(Frames({"a"}) + skipped + Frames({"b"})).value(), "ab");
}

TEST(ZstdText, AFrameThatIsCutOffIsRefused) {
  const std::string first = Frames({"one"}), frames = first + Frames({"two"});
  for (size_t size = 5; size < frames.size(); ++size) {
    if (size == first.size()) continue;  // a whole frame
    const Error error = ErrorOf(frames.substr(0, size));
    EXPECT_EQ(error.code, Code::kCorrupt) << size;
    EXPECT_EQ(error.message,
              Cat("t.zst: zstd frame at byte ", size < first.size() ? 0 : first.size(),
                  ": expected its end, found that of the file"));
  }
}

TEST(ZstdText, BytesAfterTheLastFrameAreRefused) {
  const std::string frame = Frames({"one"});
  const Error error = ErrorOf(frame + "no frame");
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_EQ(error.message, Cat("t.zst: zstd frame at byte ", frame.size(),
                               ": expected its magic, found other bytes"));
  EXPECT_THAT(ErrorOf(frame + "\n").message, StartsWith("t.zst: zstd frame at byte "));
}

// A frame has some bits whose change leaves the text as it is.
TEST(ZstdText, EveryChangedByteIsNoticedOrDoesNotMatter) {
  const std::string text = "some text that is long enough to have a block";
  const std::string frame = Frames({text});
  for (size_t i = 4; i < frame.size(); ++i) {
    std::string damaged = frame;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x20);
    if (TextOf(damaged) && TextOf(damaged).value() == text) continue;
    EXPECT_THAT(ErrorOf(damaged).message, StartsWith("t.zst: zstd frame at byte 0: expected "))
        << i;
  }
  std::string damaged = frame;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  EXPECT_EQ(ErrorOf(damaged).message,
            "t.zst: zstd frame at byte 0: expected the checksum of its text, found another");
}

// The text of a frame is not handed out before its checksum was compared.
TEST(ZstdText, ADamagedFrameGivesNoText) {
  std::string damaged = Frames({std::string(1000, 'x')});
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  const MemorySource source("t.zst", Frames({"one"}) + damaged);
  SourceText text(source);
  EXPECT_EQ(text.Next().value(), "one");
  EXPECT_FALSE(text.Next());
}

TEST(ZstdText, ALargeWindowIsRefused) {
  const std::string text(1u << 20, 'x');
  EXPECT_TRUE(TextOf(FrameWith(text, ZSTD_c_windowLog, 23)).value() == text);
  const Error error = ErrorOf(FrameWith(text, ZSTD_c_windowLog, 24));
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_EQ(error.message,
            "t.zst: zstd frame at byte 0: expected a window of at most 8388608 bytes, found a "
            "larger one");
}

TEST(ZstdText, MoreTextThanAFileOfItsSizeHoldsIsRefused) {
  EXPECT_EQ(TextOf(Bomb(80)).value().size(), 80u * (128u << 10));
  const std::string bomb = Bomb(2080);
  const MemorySource source("t.zst", bomb);
  SourceText text(source);
  Result<std::string_view> piece = text.Next();
  while (piece && !piece->empty()) piece = text.Next();
  ASSERT_FALSE(piece);
  EXPECT_EQ(piece.error().code, Code::kCorrupt);
  EXPECT_EQ(piece.error().message, Cat("t.zst: zstd: expected at most ", MostZstdText(bomb.size()),
                                       " bytes of text in ", bomb.size(), " bytes, found more"));
}

TEST(ZstdText, TheHeadIsThatOfTheText) {
  const std::string text = AnyBytes(2 * kTextPiece);
  for (const std::string& bytes :
       {text, Frames({text}), Frames({text.substr(0, 10), text.substr(10)})}) {
    const MemorySource source("t", bytes);
    EXPECT_TRUE(TextHead(source, 100).value() == text.substr(0, 100));
    EXPECT_TRUE(TextHead(source, 3 * kTextPiece).value() == text);
  }
  const MemorySource damaged("t", Frames({"one"}).substr(0, 8));
  EXPECT_FALSE(TextHead(damaged, 10));
}

TEST(ZstdText, StopsWhenTheUserInterruptsIt) {
  InterruptRequested() = true;
  const Error error = ErrorOf(Frames({"one"}));
  InterruptRequested() = false;
  EXPECT_EQ(error.code, Code::kInterrupted);
  EXPECT_NE(error.message, "was read");
}

TEST(ZstdText, APointerToAFileIsRefusedAsOne) {
  EXPECT_THAT(
      ErrorOf("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n").message,
      HasSubstr("t.zst"));
}

}  // namespace
}  // namespace moepack
