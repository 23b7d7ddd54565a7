#include "cli/niah/heat_map.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace recollect::cli::niah {
namespace {

constexpr std::array<const char*, 9> kBlocks = {"  ", "▁▁", "▂▂", "▃▃", "▄▄",
                                                "▅▅", "▆▆", "▇▇", "██"};
constexpr std::array<const char*, 9> kShades = {
    "  ", "..", "::", "--", "==", "++", "**", "%%", "##"};
// Pixels.
constexpr int kWide = 64, kHigh = 22, kLeft = 84, kGap = 34, kTop = 44, kFoot = 24;

struct Colour {
  double red, green, blue;
};
// None, half, all right: told apart also by those who see no red or no green, and in print.
constexpr std::array<Colour, 3> kColours = {{{178, 24, 43}, {247, 230, 160}, {33, 102, 172}}};

double Share(const HeatCell& cell) {
  return static_cast<double>(cell.right) / static_cast<double>(cell.judged);
}

std::string ColourOf(double share) {
  const double at = share * (kColours.size() - 1);
  const size_t below = std::min(kColours.size() - 2, static_cast<size_t>(at));
  const double part = at - static_cast<double>(below);
  const auto mix = [&](double Colour::*channel) {
    const double from = kColours[below].*channel, to = kColours[below + 1].*channel;
    return static_cast<int>(std::lround(from + (to - from) * part));
  };
  return absl::StrFormat("#%02x%02x%02x", mix(&Colour::red), mix(&Colour::green),
                         mix(&Colour::blue));
}

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

std::string Text(int x, int y, const char* anchor, const std::string& text) {
  return absl::StrFormat("<text x=\"%d\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", x, y, anchor,
                         Escaped(text));
}

std::string DepthRange(size_t row, size_t rows) {
  return absl::StrFormat("%d to %d %%", 100 * row / rows, 100 * (row + 1) / rows);
}

// With its left upper corner at (0, top).
std::string DrawOne(const HeatMap& map, int top) {
  std::string svg = Text(kLeft, top - 20, "start", map.task);
  for (size_t c = 0; c < map.tokens.size(); ++c) {
    svg += Text(kLeft + static_cast<int>(c) * kWide + kWide / 2, top - 5, "middle",
                TokenCount(map.tokens[c]));
  }
  for (size_t r = 0; r < map.rows.size(); ++r) {
    const int y = top + static_cast<int>(r) * kHigh;
    svg += Text(kLeft - 6, y + kHigh - 7, "end", DepthRange(r, map.rows.size()));
    for (size_t c = 0; c < map.tokens.size(); ++c) {
      const HeatCell& cell = map.rows[r][c];
      const int x = kLeft + static_cast<int>(c) * kWide;
      absl::StrAppendFormat(
          &svg,
          "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\" stroke=\"#ffffff\"/>\n",
          x, y, kWide, kHigh, cell.judged == 0 ? "#eeeeee" : ColourOf(Share(cell)));
      if (cell.judged == 0) continue;
      // White is read on the dark ends of the scale, black in its middle.
      const bool dark = std::abs(Share(cell) - 0.5) > 0.3;
      absl::StrAppendFormat(
          &svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"%s\">%d/%d</text>\n",
          x + kWide / 2, y + kHigh - 7, dark ? "#ffffff" : "#000000", cell.right, cell.judged);
    }
  }
  return svg;
}

}  // namespace

std::vector<HeatMap> HeatMaps(const std::vector<Sample>& samples, int depths) {
  std::map<std::string, std::set<int64_t>> sizes;
  for (const Sample& s : samples) {
    if (s.right.has_value()) sizes[s.task].insert(s.tokens_asked);
  }
  std::vector<HeatMap> maps;
  for (const auto& [task, tokens] : sizes) {
    HeatMap& map = maps.emplace_back();
    map.task = task;
    map.tokens.assign(tokens.begin(), tokens.end());
    map.rows.assign(depths, std::vector<HeatCell>(tokens.size()));
    for (const Sample& s : samples) {
      if (s.task != task || !s.right.has_value()) continue;
      const int64_t column = std::distance(tokens.begin(), tokens.find(s.tokens_asked));
      HeatCell& cell = map.rows[DepthBucket(s, depths)][column];
      ++cell.judged;
      cell.right += *s.right ? 1 : 0;
    }
  }
  return maps;
}

std::string TokenCount(int64_t tokens) {
  for (const auto& [unit, name] :
       {std::pair(int64_t{1} << 20, "M"), std::pair(int64_t{1} << 10, "k")}) {
    if (tokens > 0 && tokens % unit == 0) return absl::StrCat(tokens / unit, name);
  }
  return absl::StrCat(tokens);
}

std::string FormatHeatMaps(const std::vector<HeatMap>& maps, bool unicode) {
  const auto& blocks = unicode ? kBlocks : kShades;
  std::string out;
  for (const HeatMap& map : maps) {
    absl::StrAppendFormat(&out, "%-14s", map.task);
    for (const int64_t tokens : map.tokens) absl::StrAppendFormat(&out, "%10s", TokenCount(tokens));
    out += "   right by depth and tokens\n";
    for (size_t r = 0; r < map.rows.size(); ++r) {
      absl::StrAppendFormat(&out, "%14s", DepthRange(r, map.rows.size()));
      for (const HeatCell& cell : map.rows[r]) {
        if (cell.judged == 0) {
          absl::StrAppendFormat(&out, "%10s", "-");
          continue;
        }
        // The full block is for those of which all are right.
        const auto level = static_cast<size_t>(std::floor(Share(cell) * (blocks.size() - 1)));
        absl::StrAppendFormat(&out, "  %s%4.0f %%", blocks[level], 100 * Share(cell));
      }
      out += "\n";
    }
    out += "\n";
  }
  return out;
}

std::string DrawHeatMaps(const std::vector<HeatMap>& maps, const std::string& title) {
  size_t columns = 1;
  int height = kTop;
  std::string body;
  for (const HeatMap& map : maps) {
    columns = std::max(columns, map.tokens.size());
    body += DrawOne(map, height + kGap);
    height += kGap + static_cast<int>(map.rows.size()) * kHigh + kGap / 2;
  }
  // The title is longer than a single column.
  const int width = std::max(kLeft + static_cast<int>(columns) * kWide + kGap, 480);
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
      width, height + kFoot);
  svg += Text(10, 22, "start", title);
  svg += body;
  svg += Text(10, height + kFoot - 8, "start",
              "right answers of those asked, by depth in the text and tokens mounted");
  return svg + "</svg>\n";
}

}  // namespace recollect::cli::niah
