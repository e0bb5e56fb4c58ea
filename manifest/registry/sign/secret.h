// Bytes that nobody else should see: wiped when they are destroyed, and never printed.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moepack::registry {

// Move-only. A moved-from secret is empty.
class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string_view text) : bytes_(text.begin(), text.end()) {}
  Secret(Secret&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Secret& operator=(Secret&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Secret();

  bool empty() const { return bytes_.empty(); }
  std::string_view text() const { return {bytes_.data(), bytes_.size()}; }

 private:
  std::vector<char> bytes_;
};

// Overwrites the text and empties it.
void Wipe(std::string& text);

}  // namespace moepack::registry
