"""Parses WDDX, the XML form of a search answer (interface section 4.1), into columns; `records` reads the rows."""

from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from assetsync.errors import BadAnswer
from assetsync.service.errors import refusal_in


def read_wddx(page: str) -> tuple[list[object], list[object]]:
    """Return the names and the columns (a list of values each) of a packet's record set.

    Raises BadAnswer for an unsound packet, KeyRefused or ServiceRefused for a packet that reports an error.
    """
    if "xmlns" in page:
        # The parser stores the namespace with every name, so a long namespace in a long answer would fill the memory.
        raise BadAnswer("the search answer is not sound XML")
    try:
        packet: Element = fromstring(page.strip(), forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, LookupError) as exc:
        raise BadAnswer("the search answer is not sound XML") from exc
    recordset = packet.find("./data/recordset")
    if recordset is None:
        stated = {var.get("name", "").lower(): _value(var[0]) for var in packet.iterfind(".//var") if len(var)}
        raise refusal_in(stated) or BadAnswer("the search answer is WDDX without a record set")
    names: list[object] = [field.get("name", "") for field in recordset]
    columns: list[object] = [[_value(value) for value in field] for field in recordset]
    counted = recordset.get("rowCount", "")
    if any(isinstance(column, list) and str(len(column)) != counted for column in columns):
        raise BadAnswer(f"the search answer does not hold the {counted[:20]!r} rows that it counts")
    return names, columns


def _value(element: Element) -> object:
    if element.tag == "null":
        return None
    if element.tag == "boolean":
        return element.get("value", "").lower() == "true"
    # Control characters are separate elements: <char code="0A"/>.
    text = (element.text or "") + "".join(_char(child) + (child.tail or "") for child in element)
    if element.tag == "number":
        try:
            number = float(text)
        except ValueError:
            return text
        return int(number) if number.is_integer() else number
    return text


def _char(element: Element) -> str:
    try:
        return chr(int(element.get("code", ""), 16)) if element.tag == "char" else ""
    except (ValueError, OverflowError):
        return ""
