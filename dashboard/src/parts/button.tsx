import type { ButtonHTMLAttributes } from "react";

const LOOKS = {
  plain: "border-line bg-panel text-ink hover:bg-hover",
  main: "border-transparent bg-[#0969da] text-white hover:bg-[#0860ca]",
  danger: "border-transparent bg-[#cf222e] text-white hover:bg-[#a40e26]",
};

export function Button({
  look = "plain",
  className = "",
  ...rest
}: ButtonHTMLAttributes<HTMLButtonElement> & { look?: keyof typeof LOOKS }) {
  return (
    <button
      type="button"
      className={`rounded-md border px-3 py-1 font-medium whitespace-nowrap disabled:opacity-50 ${LOOKS[look]} ${className}`}
      {...rest}
    />
  );
}
