// The two digests of a distribution: XXH3-128 per tensor (fast), SHA-256 per file (which registries
// and people compare).
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace moepack {

// Streaming XXH3-128. The text is the canonical (big-endian) form in 32 hexadecimal digits, as
// `xxhsum -H2` prints it.
class Xxh3 {
 public:
  Xxh3();
  Xxh3(Xxh3&&) noexcept;
  Xxh3& operator=(Xxh3&&) noexcept;
  ~Xxh3();
  void Reset();
  void Update(std::span<const std::byte> bytes);
  std::string Hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The digests of many tensors as text, without a separate allocation for each.
class Xxh3List {
 public:
  Xxh3List() = default;
  explicit Xxh3List(size_t count) : text_(count * kLength, '0') {}
  size_t size() const { return text_.size() / kLength; }
  std::string_view operator[](size_t index) const {
    return std::string_view(text_).substr(index * kLength, kLength);
  }
  // REQUIRES: `hex` is what Xxh3::Hex returns.
  void Add(std::string_view hex) { text_ += hex; }
  // Keeps at most the first `count`.
  void Truncate(size_t count) { text_.resize(std::min(text_.size(), count * kLength)); }

 private:
  static constexpr size_t kLength = 32;
  std::string text_;
};

// Streaming SHA-256 through OpenSSL, 64 hexadecimal digits.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();
  void Update(std::span<const std::byte> bytes);
  // Ends the stream; call once.
  std::string Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string Xxh3Hex(std::span<const std::byte> bytes);
// Returns whether text from a file can be an Xxh3 digest in hexadecimal.
bool IsXxh3Hex(std::string_view text);
// Whether a text is so many lower-case hexadecimal digits and nothing else.
bool IsHex(std::string_view text, size_t digits);
std::string Sha256Hex(std::string_view text);
std::string Sha256Hex(std::span<const std::byte> bytes);

}  // namespace moepack
