"""What people and scripts read: tables, numbers as text, data as JSON."""
