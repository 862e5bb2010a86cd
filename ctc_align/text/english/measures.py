"""Units of measure and currencies, in American English."""

from __future__ import annotations

import re

from ctc_align.text.characters import word_set

_UNITS = {
    "kg": "kilogram", "g": "gram", "mg": "milligram", "µg": "microgram", "lb": "pound", "lbs": "pound", "oz": "ounce",
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "µm": "micrometer", "nm": "nanometer",
    "mi": "mile", "ft": "foot", "in": "inch", "yd": "yard", "yds": "yard", "ha": "hectare",
    "l": "liter", "L": "liter", "ml": "milliliter", "mL": "milliliter", "cl": "centiliter", "gal": "gallon",
    "km/h": "kilometer per hour", "kph": "kilometer per hour", "kmh": "kilometer per hour", "mph": "mile per hour",
    "m/s": "meter per second", "mi/h": "mile per hour", "fps": "frame per second", "bps": "bit per second",
    "kbps": "kilobit per second", "Mbps": "megabit per second", "Gbps": "gigabit per second",
    "Hz": "hertz", "kHz": "kilohertz", "MHz": "megahertz", "GHz": "gigahertz", "THz": "terahertz", "dB": "decibel",
    "kB": "kilobyte", "KB": "kilobyte", "MB": "megabyte", "GB": "gigabyte", "TB": "terabyte", "PB": "petabyte",
    "W": "watt", "kW": "kilowatt", "MW": "megawatt", "GW": "gigawatt", "kWh": "kilowatt hour", "Wh": "watt hour",
    "V": "volt", "mV": "millivolt", "kV": "kilovolt", "mA": "milliamp", "kPa": "kilopascal", "hPa": "hectopascal",
    "kcal": "kilocalorie", "cal": "calorie", "kJ": "kilojoule",
    "h": "hour", "hr": "hour", "hrs": "hour", "min": "minute", "mins": "minute", "sec": "second", "secs": "second",
    "ms": "millisecond", "µs": "microsecond", "ns": "nanosecond",
    "°": "degree", "°C": "degree celsius", "°F": "degree fahrenheit", "°K": "degree kelvin", "%": "percent",
}  # fmt: skip
_POWERS = {"2": "square", "3": "cubic"}
_NOT_SPACED = frozenset(("in", "ha", "W", "V", "L", "l", "mi", "g", "%"))
_ALONE = word_set(
    """kg mg km cm mm lbs km/h kph mph kHz MHz GHz Hz dB kWh kW kcal Mbps kbps ml mL kB KB MB GB TB °C °F µm µg µs"""
)
_IRREGULAR = {"foot": "feet", "inch": "inches", "percent": "percent"}
_UNIT = re.compile(r"(?P<unit>[A-Za-zµ°%]+(?:/[a-z]+)?)(?:⁺?(?P<power>[23]))?")

CURRENCIES = {
    "$": ("dollar", "dollars"), "£": ("pound", "pounds"), "€": ("euro", "euros"), "¥": ("yen", "yen"),
    "₹": ("rupee", "rupees"), "₩": ("won", "won"), "₽": ("ruble", "rubles"), "₺": ("lira", "lira"),
    "₪": ("shekel", "shekels"), "₫": ("dong", "dong"), "₦": ("naira", "naira"), "₴": ("hryvnia", "hryvnias"),
    "₿": ("bitcoin", "bitcoins"), "฿": ("baht", "baht"), "¢": ("cent", "cents"),
}  # fmt: skip
CENTS = {"$": ("cent", "cents"), "€": ("cent", "cents"), "£": ("penny", "pence")}


def unit_name(written: str, *, singular: bool = False) -> str | None:
    """Return the name of a unit after a number, in the plural unless `singular`; None for what is no unit.

    >>> unit_name("km/h"), unit_name("kg", singular=True), unit_name("m2"), unit_name("zz")
    ('kilometers per hour', 'kilogram', 'square meters', None)
    """
    match = _UNIT.fullmatch(written)
    if match is None:
        return None
    unit = match["unit"]
    name = _UNITS.get(unit) or (_UNITS.get(unit.lower()) if len(unit) > 1 and unit.isupper() else None)
    if name is None:
        return None
    head, per, tail = name.partition(" per ")
    if not singular:
        head = _plural(head)
    if match["power"] and tail:
        tail += {"2": " squared", "3": " cubed"}[match["power"]]
    elif match["power"]:
        head = f"{_POWERS[match['power']]} {head}"
    return head + per + tail


def spaced_unit_name(written: str, before: str) -> str | None:
    """Return the name of a unit that is a word of its own, after the word `before`; None where that would be a guess.

    >>> spaced_unit_name("kg", "5"), spaced_unit_name("kg", "five"), spaced_unit_name("in", "5")
    ('kilograms', 'kilograms', None)
    """
    unit = re.sub(r"⁺?[23]$", "", written)
    if re.fullmatch(r"\W*[\d.,/]*\d\W*", before):
        allowed = unit in _UNITS and unit not in _NOT_SPACED
    else:
        allowed = unit in _ALONE
    return unit_name(written, singular=before.lower() in ("1", "a", "one", "per")) if allowed else None


def spaced_units() -> frozenset[str]:
    """Return the lower-case spellings that may be units when they stand alone."""
    return frozenset(unit.lower() for unit in _UNITS)


def _plural(name: str) -> str:
    first, _, rest = name.partition(" ")
    if first == "degree":
        return f"degrees {rest}".strip()
    if name in _IRREGULAR or name.endswith("hertz"):
        return _IRREGULAR.get(name, name)
    return name + "s"
