// Cat joins text and numbers; g++ 12 has no std::format.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace moepack {

// One argument of Cat: text, a character, an integer, a boolean (1 or 0), or a floating-point
// number, shown with six significant digits like printf's %g. Borrows text; lives as long as the
// call.
class CatPart {
 public:
  CatPart(std::string_view text) : text_(text) {}
  CatPart(const std::string& text) : text_(text) {}
  CatPart(const char* text) : text_(text) {}
  CatPart(char letter) : digits_{letter}, text_(digits_.data(), 1) {}
  CatPart(std::signed_integral auto number) { Show(static_cast<int64_t>(number)); }
  CatPart(std::unsigned_integral auto number) { Show(static_cast<uint64_t>(number)); }
  CatPart(std::floating_point auto number) { Show(static_cast<double>(number)); }
  CatPart(const CatPart&) = delete;  // text_ may point into digits_
  CatPart& operator=(const CatPart&) = delete;

  std::string_view text() const { return text_; }

 private:
  void Show(int64_t number);
  void Show(uint64_t number);
  void Show(double number);
  template <class... Number>
  void Keep(Number... number);

  std::array<char, 24> digits_ = {};
  std::string_view text_;
};

std::string CatParts(std::initializer_list<CatPart> parts);

// Cat("tensor ", name, ": ", 3) -> "tensor x: 3".
template <class... Parts>
std::string Cat(const Parts&... parts) {
  return CatParts({CatPart(parts)...});
}

}  // namespace moepack
