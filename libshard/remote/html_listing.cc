#include "libshard/remote/html_listing.h"

#include <algorithm>
#include <optional>

#include "libshard/base/files/inside_path.h"
#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

// The five characters that a server must escape in an attribute.
struct Entity {
  std::string_view text, meaning;
};
constexpr Entity kEntities[] = {
    {"&amp;", "&"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&#39;", "'"}};

std::string WithoutEntities(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto entity = std::find_if(std::begin(kEntities), std::end(kEntities),
                                     [&](const Entity& e) { return text.starts_with(e.text); });
    const bool found = entity != std::end(kEntities);
    out += found ? entity->meaning : text.substr(0, 1);
    text.remove_prefix(found ? entity->text.size() : 1);
  }
  return out;
}

// The file directly below `page` that a link leads to.
std::optional<std::string> FileOf(const Url& page, const std::string& link) {
  if (link.empty() || link[0] == '?' || link[0] == '#') return std::nullopt;
  const Result<Url> url = ResolveLocation(page, link);
  if (!url || !url->SameOrigin(page) || !url->query.empty()) return std::nullopt;
  if (!url->path.starts_with(page.path)) return std::nullopt;
  const std::string rest = url->path.substr(page.path.size());
  if (rest.empty() || rest.find('/') != rest.npos) return std::nullopt;
  std::string name = DecodePercent(rest);
  // To the system a name ends at a NUL, so it would be another file's.
  if (name.find_first_of(std::string_view("/\0", 2)) != name.npos) return std::nullopt;
  if (!StaysBelow(name)) return std::nullopt;
  return name;
}

}  // namespace

std::vector<std::string> FilesOfListing(const Url& page, std::string_view html) {
  constexpr std::string_view kLink = "href=";
  std::vector<std::string> names;
  for (size_t at = html.find(kLink); at != html.npos; at = html.find(kLink, at)) {
    at += kLink.size();
    const char quote = at < html.size() ? html[at] : '\0';
    if (quote != '"' && quote != '\'') continue;
    const size_t end = html.find(quote, at + 1);
    if (end == html.npos) break;
    if (auto name = FileOf(page, WithoutEntities(html.substr(at + 1, end - at - 1))))
      names.push_back(*std::move(name));
    at = end;
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace moepack::remote
