// Passes on bytes that arrive in pieces, in whole characters.
#pragma once

#include <string>
#include <string_view>

namespace moepack::cli {

// A token may stand for part of a UTF-8 character; a terminal wants all of it at once.
class Utf8Stream {
 public:
  // What can be written now: everything but the bytes of a last character that may go on. Bytes
  // that are not UTF-8 are passed on unchanged.
  std::string Add(std::string_view bytes);
  // What is still held back.
  std::string Rest();

 private:
  std::string held_;
};

}  // namespace moepack::cli
