"""Answers for people: pictures, tables, Markdown."""
