// A picture of how many answers are right by size and depth, as text for a terminal and as an SVG
// file: for each task a grid with a column for each size and a row for each stretch of depths, the
// beginning of the text on top.
#ifndef RECOLLECT_CLI_NIAH_HEAT_MAP_H_
#define RECOLLECT_CLI_NIAH_HEAT_MAP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cli/niah/report.h"

namespace recollect::cli::niah {

// The judged samples of one size and one stretch of depths.
struct HeatCell {
  int64_t judged = 0, right = 0;  // nothing judged: an empty field
  friend bool operator==(const HeatCell&, const HeatCell&) = default;
};

struct HeatMap {
  std::string task;
  std::vector<int64_t> tokens;  // of the columns, ascending
  // By row and column: row r of n has the depths from r / n to (r + 1) / n.
  std::vector<std::vector<HeatCell>> rows;
};

// Returns a map for each task with judged samples, in the order of their names.
// REQUIRES: depths > 0.
std::vector<HeatMap> HeatMaps(const std::vector<Sample>& samples, int depths);

// "16M" and "64k" for multiples of 2^20 and 2^10, otherwise digits.
std::string TokenCount(int64_t tokens);

// Formats the maps as text: a block for each field, fuller the more answers are right, with the
// percentage beside it. Plain ASCII unless `unicode`.
std::string FormatHeatMaps(const std::vector<HeatMap>& maps, bool unicode);

// Returns a complete SVG document; `title` stands above the maps. The same maps give the same
// bytes.
std::string DrawHeatMaps(const std::vector<HeatMap>& maps, const std::string& title);

}  // namespace recollect::cli::niah

#endif  // RECOLLECT_CLI_NIAH_HEAT_MAP_H_
