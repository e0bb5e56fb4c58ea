#include "libshard/base/text/address.h"

#include <algorithm>

#include "libshard/base/text/text.h"

namespace moepack {

std::string_view SchemeOf(std::string_view text) {
  const size_t end = text.find("://");
  if (end == text.npos || end == 0) return "";
  const std::string_view scheme = text.substr(0, end);
  const bool word = scheme.find_first_not_of(
                        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-") ==
                    std::string_view::npos;
  return word ? scheme : "";
}

std::string WithoutSecrets(const std::string& source) {
  const size_t scheme = source.find("://");
  if (scheme == source.npos || source.find('/') < scheme) return source;
  const size_t host = scheme + 3;
  const size_t path = std::min(source.find_first_of("/?#", host), source.size());
  const size_t user = source.rfind('@', path);
  const size_t from = user != source.npos && user >= host ? user + 1 : host;
  // Elsewhere '?' and '#' are part of a name.
  const std::string web = Lower(source.substr(0, host));
  const bool query = web == "https://" || web == "http://";
  const size_t end =
      query ? std::min(source.find_first_of("?#", path), source.size()) : source.size();
  return Cat(source.substr(0, host), source.substr(from, end - from));
}

}  // namespace moepack
