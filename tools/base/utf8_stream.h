// Passes on bytes that arrive in pieces, in whole characters.
#pragma once

#include <string>
#include <string_view>

namespace moepack::cli {

// A token may be part of a UTF-8 character; a terminal needs the whole character at once.
class Utf8Stream {
 public:
  // What can be written now: everything but the bytes of an incomplete last character. Bytes that
  // are not UTF-8 are passed on unchanged.
  std::string Add(std::string_view bytes);
  // What is still held back.
  std::string Rest();

 private:
  std::string held_;
};

}  // namespace moepack::cli
