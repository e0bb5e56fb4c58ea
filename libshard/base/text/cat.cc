#include "libshard/base/text/cat.h"

#include <charconv>

namespace moepack {

template <class... Number>
void CatPart::Keep(Number... number) {
  const auto end = std::to_chars(digits_.data(), digits_.data() + digits_.size(), number...);
  text_ = std::string_view(digits_.data(), static_cast<size_t>(end.ptr - digits_.data()));
}

void CatPart::Show(int64_t number) { Keep(number); }

void CatPart::Show(uint64_t number) { Keep(number); }

void CatPart::Show(double number) { Keep(number, std::chars_format::general, 6); }

std::string CatParts(std::initializer_list<CatPart> parts) {
  size_t size = 0;
  for (const CatPart& part : parts) size += part.text().size();
  std::string joined;
  joined.reserve(size);
  for (const CatPart& part : parts) joined += part.text();
  return joined;
}

}  // namespace moepack
