"""Makes a key. Keep it as you keep a password: what it has encrypted is lost with it."""

from cryptography.fernet import Fernet

print(Fernet.generate_key().decode())
