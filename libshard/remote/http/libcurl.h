// libcurl, opened for the first address: with the libraries it needs it takes 5 MB, which commands
// on local files should not pay.
#pragma once

#include <curl/curl.h>

#include "libshard/base/result.h"

namespace moepack::remote {

// The functions of libcurl (https://curl.se/libcurl/c/) that are used here, under their own names.
struct LibCurl {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_reset) easy_reset = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_perform) easy_perform = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
  decltype(&curl_getdate) getdate = nullptr;
  decltype(&curl_url) url = nullptr;
  decltype(&curl_url_cleanup) url_cleanup = nullptr;
  decltype(&curl_url_get) url_get = nullptr;
  decltype(&curl_url_set) url_set = nullptr;
  decltype(&curl_free) free = nullptr;
};

// Opens the library once and keeps it until the process ends. kUnavailable if this machine lacks
// it.
Status OpenLibCurl();
// REQUIRES: OpenLibCurl has succeeded.
const LibCurl& Curl();

}  // namespace moepack::remote
